"""What is proved of each chapter: a table of checks in book order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import cache, mains, pairs, paritycheck, untouched
from steplib.errors import Problem, UserError
from steplib.facts import Finding, Result, failed
from steplib.models import digest
from steplib.paths import shown
from steplib.prompts import prompt_set
from steplib.stage import shared_files, staged
from steplib.turns import PARSING

if TYPE_CHECKING:
    from steplib.book import Book, Chapter
    from steplib.lineup import Lineup
    from steplib.oracle import References
    from steplib.process import Runner


@dataclass
class Limits:
    """Seconds that a main, one probe and one call of generate may take."""

    main: float = mains.LIMIT
    probe: float = pairs.PROBE_LIMIT
    generate: float = paritycheck.LIMIT


@dataclass
class Context:
    """What every check needs. runner: for mains, fresh processes. forks: for all else."""

    book: Book
    lineup: Lineup
    references: References
    runner: Runner
    forks: Runner
    kept: cache.Results
    limits: Limits

    @cached_property
    def book_problems(self) -> list[Problem]:
        """What is wrong with manifests, forms and TREE files, of all chapters together."""
        return self.book.problems()

    def hashes(self, number: int) -> dict[str, str]:
        """The sha256 of each file of a tree."""
        return {path: file.sha256 for path, file in self.book.tree(number).files.items()}

    def cached(self, make: Callable[[], Result], parts: Callable[[], list[Any]]) -> Result:
        """The result kept for `parts`, or a new one; only a pass is kept.

        Not when the parts changed meanwhile, for then nobody knows which ones passed.
        """
        key = cache.key(*parts())
        if (kept := self.kept.get(key)) is not None:
            return Result(**{**kept, "is_cached": True, "seconds": 0.0})
        result = make()
        if result.is_passed and cache.key(*parts()) == key:
            data = {"check": result.check, "summary": result.summary, "data": result.data}
            self.kept.put(key, data)
        return result


@dataclass(frozen=True)
class Check:
    """One row of the table. prove(context, chapter, results so far by check) -> Result.

    needs: checks that come before. parses: it works with `ast` in this process.
    """

    name: str
    says: str
    prove: Callable[[Context, Chapter, dict[str, Result]], Result]
    command: str
    needs: tuple[str, ...] = ()
    parses: bool = False


def _of_problems(check: str, problems: list[Problem], summary: str) -> Result:
    if problems:
        return failed(check, *map(Finding.of, problems))
    return Result(check, summary=summary)


def manifest(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """Problems of the whole book that name no other chapter count for the last one."""
    names = [c.name for c in context.book.chapters]
    mine = [
        problem
        for problem in context.book_problems
        if next((n for n in names if n in problem.where), names[-1]) == chapter.name
    ]
    files = len(context.book.tree(chapter.number).files)
    return _of_problems("manifest", mine, f"{files} files")


def references(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    from steplib.static import forward_references

    def make() -> Result:
        found = forward_references(context.book, chapter.number)
        return _of_problems("references", found, "none points forward")

    return context.cached(make, lambda: ["references", *_static_parts(context, chapter)])


def types(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    from steplib.typecheck import type_problems

    def make() -> Result:
        return _of_problems("types", type_problems(context.book, chapter.number), "mypy agrees")

    def parts() -> list[Any]:
        return ["types", cache.installed("mypy"), *_static_parts(context, chapter)]

    return context.cached(make, parts)


def _static_parts(context: Context, chapter: Chapter) -> list[Any]:
    folder, root = chapter.folder, context.book.root
    sources = [*folder.rglob("*.py"), *test_files(context.book, chapter), *shared_files(root)]
    later = [c.manifest.later for c in context.book.chapters if c.number <= chapter.number]
    here = Path(__file__).parent
    tool = [here / f"{name}.py" for name in ("static", "typecheck", "modules", "references")]
    hashes = [cache.file_sha256(path) for path in [*sorted(sources), *tool]]
    return [context.book.tree(chapter.number).sha256, hashes, later]


def main(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    model = context.lineup.main_model(chapter)

    def make() -> Result:
        limit = context.limits.main
        outcome = mains.run_main(context.book, chapter, model, context.runner, True, limit)
        return mains.judged(outcome, context.hashes(chapter.number), model.name)

    def parts() -> list[Any]:
        may_start = chapter.manifest.main.second_process
        return ["main", *_main_parts(context, chapter), digest(model), may_start]

    return context.cached(make, parts)


def _main_parts(context: Context, chapter: Chapter) -> list[str]:
    files = [chapter.main, *shared_files(context.book.root)]
    return [context.book.tree(chapter.number).sha256, *map(cache.file_sha256, files)]


def parity(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """Every model in turn; the first that fails ends it."""
    results = []
    for folder in context.lineup.parity_models(chapter):
        results.append(_parity_of(context, chapter, folder))
        if not results[-1].is_passed:
            return results[-1]
    if not results:
        return failed("parity", Finding("no model is here to compare with"), verdict="nothing ran")
    ties = sum(result.data["near_ties"] for result in results)
    tokens = sum(result.data["tokens"] for result in results)
    noun = "model" if len(results) == 1 else "models"
    summary = f"{tokens} tokens equal on {len(results)} {noun}, {ties} near ties"
    data = {"models": [result.data for result in results]}
    every = all(result.is_cached for result in results)
    return Result("parity", summary=summary, data=data, is_cached=every)


def _parity_of(context: Context, chapter: Chapter, folder: Path) -> Result:
    wanted, prompts = chapter.manifest.parity, prompt_set(folder)

    def make() -> Result:
        tree = context.book.tree(chapter.number)
        with staged(tree, context.book.root, [chapter.main]) as stage:
            return paritycheck.check_model(
                stage, context.forks, folder, prompts, context.references, wanted,
                context.limits.generate,
            )  # fmt: skip

    def parts() -> list[Any]:
        return ["parity", *_main_parts(context, chapter), digest(folder), prompts, wanted]

    result = context.cached(make, parts)
    number = f"{chapter.number:02d}"
    result.next_command = f"python tools/steps.py parity {number} --model {folder.name}"
    return result


def test_files(book: Book, chapter: Chapter) -> list[Path]:
    """The chapter's test files."""
    return sorted((book.root / "tests").glob(f"test_ch{chapter.number:02d}_*.py"))


def tests(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """The chapter's pairs on its own tree and on the finished package."""
    files = test_files(context.book, chapter)
    if not files:
        missing = f"tests/test_ch{chapter.number:02d}_*.py"
        return failed("tests", Finding(f"the chapter has no test file {missing}; write one"),
                      verdict="nothing ran")  # fmt: skip
    found = Result("tests", is_cached=True, data={"lines": {}, "files": []})
    for number in dict.fromkeys((chapter.number, context.book.last.number)):
        for file in files:
            result = _tests_of(context, chapter, file, number)
            if not result.is_passed:
                return result
            found.is_cached &= result.is_cached
            if number == chapter.number:
                _merge(found.data["lines"], result.data["lines"])
            found.data["files"].append({k: v for k, v in result.data.items() if k != "lines"})
    passed = sum(file["passed"] for file in found.data["files"])
    skipped = sum(file["skipped"] for file in found.data["files"])
    found.summary = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
    return found


def _tests_of(context: Context, chapter: Chapter, file: Path, number: int) -> Result:
    book = context.book
    place = "its own tree" if number == chapter.number else "the finished package"

    def make() -> Result:
        with staged(book.tree(number), book.root, [file]) as stage:
            ran = pairs.run(
                pairs.read(file), stage, context.forks,
                coverage=number == chapter.number, limit=context.limits.probe,
            )  # fmt: skip
        return tests_result(ran, shown(file, book.root), place)

    def parts() -> list[Any]:
        models = [digest(folder) for folder in context.lineup.present]
        hashes = [cache.file_sha256(path) for path in [file, *shared_files(book.root)]]
        return ["tests", book.tree(number).sha256, hashes, models, number == chapter.number]

    return context.cached(make, parts)


def tests_result(ran: pairs.TestRun, file: str, place: str) -> Result:
    """A run of one file's pairs as a result; each pair that did not pass is a finding."""
    counts = {"passed": 0, "skipped": 0}
    findings = [Finding(f"{file} on {place}: {sentence}") for sentence in ran.violations]
    for one in ran.results:
        if one.verdict in counts:
            counts[one.verdict] += 1
            continue
        said = f"{file}::{one.name} on {place}: {one.verdict}: {one.detail}"
        findings.append(Finding(said, expected=one.expected, got=one.got))
    if ran.verdict == "passed":
        lines = {path: sorted(lines) for path, lines in ran.lines.items()}
        data = {"file": file, "tree": place, **counts, "lines": lines}
        return Result("tests", data=data)
    if ran.verdict == "nothing ran":
        why = f"all {counts['skipped']} tests were skipped" if ran.results else "it has no tests"
        findings.append(Finding(f"{file} on {place}: nothing ran: {why}"))
    first = next((r.name for r in ran.results if r.verdict not in counts), "")
    command = f"pytest -q {file}" + (f" -k {first}" if first else "")
    data = {"file": file, **counts, "output": ran.output[-4000:]}
    return failed("tests", *findings, verdict=ran.verdict, next_command=command, data=data)


def touched(context: Context, chapter: Chapter, so_far: dict[str, Result]) -> Result:
    """Needs the lines that main and tests ran, so it fails along with them."""
    executed: dict[str, set[int]] = {}
    for name in ("main", "tests"):
        if not so_far[name].is_passed:
            return failed("untouched", Finding(f"{name} must pass first"), verdict="nothing ran")
        for path, lines in so_far[name].data["lines"].items():
            executed.setdefault(path, set()).update(lines)
    book, number = context.book, chapter.number
    ran = {path: sorted(lines) for path, lines in executed.items()}

    def parts() -> list[Any]:
        added = {path: sorted(lines) for path, lines in untouched.added_lines(book, number).items()}
        return ["untouched", book.tree(number).sha256, added, ran]

    return context.cached(lambda: untouched.check(book, number, executed), parts)


def text(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """The generated blocks of the chapter's page."""
    from steplib.docs import stale_blocks

    return _of_problems("text", stale_blocks(context.book, chapter.number), "fresh")


def _merge(into: dict[str, list[int]], lines: dict[str, list[int]]) -> None:
    for path, numbers in lines.items():
        into[path] = sorted({*into.get(path, []), *numbers})


CHECKS = (
    Check("manifest", "manifest and TREE", manifest, "check {}"),
    Check("references", "no forward reference", references, "check {}", parses=True),
    Check("types", "types", types, "check {}"),
    Check("main", "main", main, "main {}"),
    Check("parity", "parity with transformers", parity, "parity {}"),
    Check("tests", "tests", tests, "check {}"),
    Check("untouched", "lines that ran", touched, "check {}", ("main", "tests"), parses=True),
    Check("text", "the page's generated blocks", text, "docs", parses=True),
)


def prove(context: Context, check: Check, chapter: Chapter, so_far: dict[str, Result]) -> Result:
    """Run one check; a UserError from it is a failure of this chapter, not of the whole run."""
    try:
        with PARSING if check.parses else nullcontext():
            result = check.prove(context, chapter, so_far)
    except UserError as error:
        result = failed(check.name, Finding(str(error)))
    number = f"{chapter.number:02d}"
    command = f"python tools/steps.py {check.command.format(number)}"
    result.next_command = result.next_command or command
    return result
