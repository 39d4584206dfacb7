"""The report of a check: for people, as JSON, and as JUnit XML. The same facts each time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from xml.etree import ElementTree

from steplib.checks import CHECKS
from steplib.facts import ChapterResults, Finding, Report, Result

_MORE = 5  # findings of one check shown before the rest is only counted


def chapter_line(chapter: ChapterResults) -> str:
    """One line for one chapter."""
    if chapter.is_passed:
        slow = [r for r in chapter.results if r.check in ("main", "parity", "tests")]
        word = "passed (unchanged)" if all(r.is_cached for r in slow) else "passed"
    else:
        word = "FAILED: " + ", ".join(r.check for r in chapter.results if not r.is_passed)
    facts = {result.check: result.summary for result in chapter.results if result.is_passed}
    told = [facts[name] for name in ("parity", "tests", "untouched") if facts.get(name)]
    return f"{chapter.name:<26} {word}" + "".join(f"; {fact}" for fact in told)


def lines(report: Report) -> Iterator[str]:
    """The whole report as plain lines."""
    yield from map(chapter_line, report.chapters)
    if (first := report.first_failure()) is not None:
        yield ""
        yield from failure_lines(*first)
        others = [f"{c.number:02d} {r.check}" for c, r in report.failures()[1:]]
        if others:
            yield f"also failed: {', '.join(others)}"
    yield ""
    yield f"models used: {', '.join(report.models) or 'none'}"
    yield from report.notes
    yield verdict_line(report)


def failure_lines(chapter: ChapterResults, result: Result) -> Iterator[str]:
    """One failed check: what was expected and got, where to read on, what to type next."""
    says = chapter.says or {check.name: check.says for check in CHECKS}
    place = f"check {list(says).index(result.check) + 1} of {len(says)}"
    yield f"{result.verdict.upper()}  chapter {chapter.name}, {place}: {says[result.check]}"
    for finding in result.findings[:_MORE]:
        yield from finding_lines(finding)
    if len(result.findings) > _MORE:
        yield f"  and {len(result.findings) - _MORE} more"
    yield f"  read      {result.read or chapter.page}"
    yield f"  next      {result.next_command}"


def finding_lines(finding: Finding) -> Iterator[str]:
    """What is wrong, what was expected and what came."""
    where = f"{finding.where}: " if finding.where else ""
    yield f"  {where}{finding.message}" + (f" {finding.mend}" if finding.mend else "")
    if finding.expected is not None:
        yield f"  expected  {finding.expected}"
    if finding.got is not None:
        yield f"  got       {finding.got}"


def verdict_line(report: Report) -> str:
    """The last line."""
    count = len(report.chapters)
    noun = "chapter" if count == 1 else "chapters"
    bad = sum(not chapter.is_passed for chapter in report.chapters)
    spent = f"in {report.seconds:.1f} s"
    if bad:
        return f"{bad} of {count} {noun} FAILED {spent}"
    if report.is_real_missing:
        return f"FAILED: --require-real, and the real model was not checked; {count} {noun} {spent}"
    if report.earlier_forms is None:
        return f"{count} {noun} passed {spent}"
    forms = f"the book keeps {report.earlier_forms} earlier forms of files"
    return f"{count} {noun} passed {spent}; {forms}"


def as_json(report: Report) -> str:
    """Every fact of the report."""
    chapters = [
        {"number": c.number, "name": c.name, "title": c.title, "passed": c.is_passed,
         "page": c.page, "checks": [result.as_data() for result in c.results]}
        for c in report.chapters
    ]  # fmt: skip
    whole = {
        "passed": report.is_passed,
        "models": report.models,
        "notes": report.notes,
        "real_missing": report.is_real_missing,
        "seconds": report.seconds,
        "earlier_forms": report.earlier_forms,
        "chapters": chapters,
    }
    return json.dumps(whole, indent=2) + "\n"


def as_junit(report: Report) -> str:
    """A test suite a chapter, a test case a check."""
    root = ElementTree.Element("testsuites", name="steps check", time=f"{report.seconds:.3f}")
    for chapter in report.chapters:
        bad = sum(not result.is_passed for result in chapter.results)
        suite = ElementTree.SubElement(
            root, "testsuite", name=chapter.name, tests=str(len(chapter.results)),
            failures=str(bad), time=f"{chapter.seconds:.3f}",
        )  # fmt: skip
        for result in chapter.results:
            _case(suite, chapter, result)
    if report.is_real_missing:
        suite = ElementTree.SubElement(root, "testsuite", name="models", tests="1", failures="1")
        case = ElementTree.SubElement(suite, "testcase", classname="models", name="real model")
        ElementTree.SubElement(case, "failure", message="the real model was not checked")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, chapter: ChapterResults, result: Result) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=chapter.name, name=result.check, time=f"{result.seconds:.3f}"
    )
    if not result.is_passed:
        message = result.findings[0].message if result.findings else result.verdict
        failure = ElementTree.SubElement(case, "failure", message=_plain(message))
        failure.text = _plain("\n".join(failure_lines(chapter, result)))


def _plain(text: str) -> str:
    """Without the control characters that XML can't hold."""
    return "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)
