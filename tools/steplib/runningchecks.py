"""The checks that run the chapter: main, parity, tests, and how many of its lines ran."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from steplib import cache, mains, outputs, pairs, paritycheck, untouched
from steplib.context import Context, test_files
from steplib.facts import Finding, Result, failed
from steplib.models import digest
from steplib.paths import shown
from steplib.prompts import prompt_set
from steplib.stage import fakes, shared_files, staged

if TYPE_CHECKING:
    from steplib.book import Chapter


def main(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    model, is_measured = context.lineup.main_model(chapter), not context.is_mine

    def make() -> Result:
        limit = context.limits.main
        outcome = mains.run_main(context.book, chapter, model, context.runner, is_measured, limit)
        result = mains.judged(outcome, context.hashes(chapter.number), model.name)
        if result.is_passed and is_measured and context.lineup.is_of_catalogue(model):
            outputs.keep(context.book, chapter, chapter.main, model.name, outcome.stdout)
        return result

    def parts() -> list[Any]:
        may_start = chapter.manifest.main.second_process
        return ["main", *context.main_parts(chapter), digest(model), may_start, is_measured]

    return context.cached(make, parts)


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
    wanted = chapter.manifest.parity
    prompts = prompt_set(folder, kind=wanted.prompts)

    def make() -> Result:
        tree = context.book.tree(chapter.number)
        with staged(tree, context.book.root, [chapter.main]) as stage:
            return paritycheck.check_model(
                stage, context.forks, folder, prompts, context.references, wanted,
                context.limits.generate,
            )  # fmt: skip

    def parts() -> list[Any]:
        return ["parity", *context.main_parts(chapter), digest(folder), prompts, wanted]

    result = context.cached(make, parts)
    number = f"{chapter.number:02d}"
    result.next_command = f"python tools/steps.py parity {number} --model {folder.name}"
    return result


def tests(context: Context, chapter: Chapter, _: dict[str, Result]) -> Result:
    """The chapter's pairs on its own tree and on the finished package, or on a reader's files."""
    files = test_files(context.book, chapter)
    if not files:
        missing = f"tests/test_ch{chapter.number:02d}_*.py"
        return failed("tests", Finding(f"the chapter has no test file {missing}; write one"),
                      verdict="nothing ran")  # fmt: skip
    found = Result("tests", is_cached=True, data={"lines": {}, "files": [], "modules": {}})
    failures: list[Result] = []
    last = chapter.number if context.is_mine else context.book.last.number
    for number in dict.fromkeys((chapter.number, last)):
        for file in files:
            result = _tests_of(context, chapter, file, number)
            if not result.is_passed:
                failures.append(result)
                if context.is_mine:  # a reader sees every test that fails
                    continue
                return result
            found.is_cached &= result.is_cached
            if number == chapter.number:
                _merge(found.data["lines"], result.data["lines"])
                found.data["modules"] |= result.data["modules"]
            file_facts = {k: v for k, v in result.data.items() if k not in ("lines", "modules")}
            found.data["files"].append(file_facts)
    if failures:
        return _together(failures)
    passed = sum(file["passed"] for file in found.data["files"])
    skipped = sum(file["skipped"] for file in found.data["files"])
    found.summary = f"{passed} passed" + (f", {skipped} skipped" if skipped else "")
    return found


def _together(failures: list[Result]) -> Result:
    """The first failure with the findings and modules of all."""
    first, *others = failures
    for other in others:
        first.findings += other.findings
        first.data["modules"] |= other.data["modules"]
    return first


def _tests_of(context: Context, chapter: Chapter, file: Path, number: int) -> Result:
    book = context.book
    is_own = number == chapter.number
    place = "its own tree" if is_own else "the finished package"
    if context.is_mine:
        place = "your files"
    is_measured = is_own and not context.is_mine

    def make() -> Result:
        with staged(book.tree(number), book.root, [file]) as stage:
            ran = pairs.run(
                pairs.read(file), stage, context.forks,
                coverage=is_measured, limit=context.limits.probe,
            )  # fmt: skip
        return tests_result(ran, shown(file, book.root), place)

    def parts() -> list[Any]:
        models = [digest(folder) for folder in context.lineup.present]
        files = [file, *shared_files(book.root), *fakes(book.root, [file])]
        hashes = [cache.file_sha256(path) for path in files]
        return ["tests", book.tree(number).sha256, hashes, models, is_own, is_measured]

    return context.cached(make, parts)


def tests_result(ran: pairs.TestRun, file: str, place: str) -> Result:
    """A run of one file's pairs as a result; each pair that did not pass is a finding."""
    counts = {"passed": 0, "skipped": 0}
    findings = [Finding(f"{file} on {place}: {sentence}") for sentence in ran.violations]
    for one in ran.results:
        is_own_skip = one.verdict == "skipped" and not one.detail.startswith("checkpoint ")
        if one.verdict in counts:
            counts[one.verdict] += 1
        if one.verdict in counts and not (is_own_skip and ran.verdict == "passed"):
            continue
        said = f"{file}::{one.name} on {place}: {one.verdict}: {one.detail}"
        findings.append(Finding(said, expected=one.expected, got=one.got))
    if ran.verdict == "passed" and not findings:
        lines = {path: sorted(lines) for path, lines in ran.lines.items()}
        data = {"file": file, "tree": place, **counts, "lines": lines, "modules": ran.modules}
        return Result("tests", data=data)
    if ran.verdict == "nothing ran":
        why = f"all {counts['skipped']} tests were skipped" if ran.results else "it has no tests"
        findings.append(Finding(f"{file} on {place}: nothing ran: {why}"))
    first = next((r.name for r in ran.results if r.verdict not in counts), "")
    command = f"pytest -q {file}" + (f" -k {first}" if first else "")
    data = {"file": file, **counts, "output": ran.output[-4000:], "modules": ran.modules}
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


def _merge(into: dict[str, list[int]], lines: dict[str, list[int]]) -> None:
    for path, numbers in lines.items():
        into[path] = sorted({*into.get(path, []), *numbers})
