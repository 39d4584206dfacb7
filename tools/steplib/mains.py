"""Runs a chapter's main.py in a fresh, isolated process and says how that went."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steplib.facts import Finding, Result, failed
from steplib.normalize import without_folders
from steplib.outcome import Outcome
from steplib.pairs import told
from steplib.process import Runner
from steplib.stage import staged

if TYPE_CHECKING:
    from steplib.book import Book, Chapter

CHECK = "main"
LIMIT = 300.0
"""Seconds that a main may take."""


def run_main(
    book: Book,
    chapter: Chapter,
    model: Path,
    runner: Runner,
    coverage: bool = False,
    limit: float = LIMIT,
) -> Outcome:
    """`python main.py --model MODEL` on the chapter's own tree.

    In what it prints, this machine's folders are named as a reader would name them.
    """
    body = {"script": "main.py", "argv": ["--model", str(model)]}
    with staged(book.tree(chapter.number), book.root, [chapter.main]) as stage:
        second = chapter.manifest.main.second_process
        job = stage.job("main", body, coverage=coverage, second_process=second)
        outcome = runner.run(job, limit)
    folders = {model.parent: "models", stage.tree: "tree", stage.scratch: ".", book.root: "."}
    outcome.stdout = without_folders(outcome.stdout, folders)
    return outcome


def judged(outcome: Outcome, hashes: dict[str, str], model: str) -> Result:
    """The verdict on a main. hashes: sha256 by path of the tree that it had to use."""
    error = next(iter(outcome.of_kind("error")), None)
    trouble = violations(outcome)
    if outcome.ending == "done" and error is None and not trouble:
        trouble = _foreign(outcome, hashes) + _silent(outcome)
    if outcome.ending != "done":
        trouble.insert(0, Finding(f"main.py: {outcome.detail}"))
    elif error is not None and not trouble:
        trouble.append(Finding(f"main.py stopped with {told(error)}"))
    data = {"stdout": outcome.stdout[-4000:], "stderr": outcome.stderr[-4000:], "model": model,
            "modules": outcome.end["modules"]}  # fmt: skip
    if trouble:
        verdict = outcome.ending if outcome.ending != "done" else "crashed" if error else "failed"
        return failed(CHECK, *trouble, verdict=verdict, data=data)
    tokens = _tokens(outcome)
    summary = f"{tokens} tokens on {model}, {len(outcome.end['modules'])} modules of the tree"
    lines = outcome.end["lines"]
    return Result(CHECK, summary=summary, data={**data, "tokens": tokens, "lines": lines})


def violations(outcome: Outcome) -> list[Finding]:
    """What the child tried in spite of the rules; also when the code went on without it."""
    tried = list(dict.fromkeys(outcome.end["violations"]))
    plain = [sentence for sentence in tried if "/__pycache__/" not in sentence] or tried
    said = [error["message"] for error in outcome.of_kind("error")]
    return [Finding(sentence) for sentence in sorted(plain, key=lambda s: s not in said)]


def _foreign(outcome: Outcome, hashes: dict[str, str]) -> list[Finding]:
    modules: dict[str, list[str]] = outcome.end["modules"]
    return [
        Finding(f"module {name!r} was loaded with another content than the tree's {path}")
        for name, (path, digest) in modules.items()
        if hashes.get(path) != digest
    ]


def _silent(outcome: Outcome) -> list[Finding]:
    """A main shows its chapter's point, and by something that it generated."""
    if not outcome.of_kind("generation"):
        return [Finding("main.py reported no Generation; end it with book.report(generation)")]
    if not _tokens(outcome):
        return [Finding("main.py generated nothing", expected="some tokens", got="0 tokens")]
    if not outcome.stdout.strip():
        return [Finding("main.py printed nothing", expected="a page of output", got="nothing")]
    return []


def _tokens(outcome: Outcome) -> int:
    return sum(len(row) for g in outcome.of_kind("generation") for row in g["token_ids"])
