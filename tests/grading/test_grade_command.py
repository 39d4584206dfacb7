"""`grade`: the whole run, its exit status, and that what was graded is not graded again."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from graded_book import EXERCISE, GradedBook, laid

from pairs import public_bug
from steplib.cli import main
from steplib.commands.grade import chapters
from steplib.errors import UserError
from steplib.grading import isolation
from steplib.grading.course import Course
from steplib.grading.pool import Pool
from steplib.grading.schema import load_class

Golden = Callable[[str, str], None]
ROOT = Path(__file__).resolve().parents[2]
RIGHT = "def steps(tokens):\n    return tokens\n"
WRONG = "def steps(tokens):\n    return tokens + 1\n"


@pytest.fixture
def klass(tmp_path: Path) -> Path:
    """Three students' answers to the exercise."""
    answers = {"anna/01/answer.py": RIGHT, "bob/01/answer.py": WRONG, "eve/notes.txt": "none"}
    return laid(tmp_path / "class", answers)


def grade(book: GradedBook, folder: Path, out: Path, *more: str) -> int:
    command = ["--root", str(book.root), "grade", "--submissions", str(folder)]
    return main([*command, "--exercises", f"01-{EXERCISE}", "--out", str(out), *more])


@public_bug("B117")
def test_the_exit_status_says_whether_it_worked(
    book: GradedBook, klass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody's verdict is in it: two of three fail, and the verdicts are in the files."""
    out = tmp_path / "out"
    assert grade(book, klass, out) == 0
    report = load_class(out / "grades.json")
    verdicts = {one.name: one.items[0].verdict for one in report.submissions}
    assert verdicts == {"anna": "passed", "bob": "failed", "eve": "missing"}
    assert [one.points for one in report.submissions] == [20, 0, 0]
    assert {one.max_points for one in report.submissions} == {20}
    assert len({one.seed for one in report.submissions}) == 3
    for name in verdicts:
        for file in ("report.json", "gradescope.json", "junit.xml", "report.html"):
            assert (out / "students" / name / file).stat().st_size > 0
    assert "reports are in" in capsys.readouterr().out


def test_what_is_told(
    book: GradedBook,
    klass: Path,
    tmp_path: Path,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twice, with a damaged zip, a stray file, and one who hands in again."""
    (klass / "dan.zip").write_bytes(b"PK, or so it says")
    (klass / "list.txt").write_text("anna, bob, dan, eve, finn")
    with zipfile.ZipFile(klass / "finn.zip", "w") as packed:
        packed.writestr("01/answer.py", "def steps(:\n")
    for name in ("grade", "grade_again"):
        assert grade(book, klass, tmp_path / "out", "--seed", "3", "-j", "1") == 0
        golden(name, without_what_differs(capsys.readouterr().out))
        laid(klass, {"bob/01/answer.py": RIGHT})


def without_what_differs(told: str) -> str:
    """Without how long it took and how well this machine locks code in."""
    for warning in isolation.WARNINGS.values():
        told = told.replace(f"warning: {warning}\n", "")
    told = re.sub(r"^sandbox: .*$", "sandbox: KIND", told, flags=re.MULTILINE)
    return re.sub(r", \d+ s$", ", N s", told, flags=re.MULTILINE)


def test_a_second_run_grades_only_what_changed(
    book: GradedBook, klass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(book, klass, tmp_path / "out", "--seed", "7") == 0
    laid(klass, {"bob/01/answer.py": RIGHT})
    capsys.readouterr()
    assert grade(book, klass, tmp_path / "out", "--seed", "7") == 0
    told = capsys.readouterr().out
    assert "2 of 3 are as they were graded before" in told
    assert re.findall(r"  (\w+)  20 of 20", told) == ["bob"]
    report = load_class(tmp_path / "out" / "grades.json")
    assert [one.points for one in report.submissions] == [20, 20, 0]


def test_a_run_that_is_told_to_end_leaves_no_process(book: GradedBook, tmp_path: Path) -> None:
    """SIGTERM in the midst of a submission that never ends."""
    laid(tmp_path / "class", {"eve/01/answer.py": "import time\n\ntime.sleep(600)\n"})
    words = ["--root", str(book.root), "grade", "--submissions", str(tmp_path / "class")]
    words += ["--exercises", f"01-{EXERCISE}", "--out", str(tmp_path / "out")]
    command = [sys.executable, str(ROOT / "tools/steps.py"), *words]
    run = psutil.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert any("1 to grade" in line for line in run.stdout), "nothing was graded"
        until = time.monotonic() + 20
        while len(run.children(recursive=True)) < 2:
            assert time.monotonic() < until, "there is no sandbox"
            time.sleep(0.1)
        time.sleep(2)  # the submission's own process is there, and stays for 20 s
        family = run.children(recursive=True)
        run.terminate()
        assert run.wait(20) == 143
        _, left = psutil.wait_procs(family, timeout=10)
        assert not [one for one in left if one.status() != psutil.STATUS_ZOMBIE]
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in (*run.children(recursive=True), run):
                one.kill()


@public_bug("B117")
def test_a_fault_of_the_tool_is_an_error_and_no_zero_in_silence(
    book: GradedBook, klass: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of one submission ends; the others are graded."""
    plain = Course._task

    def task(self: Course, entry: object) -> dict[str, object]:
        told = plain(self, entry)  # type: ignore[arg-type]
        return told | ({"kind": "grade", "path": 5} if told["name"] == "bob" else {})

    monkeypatch.setattr(Course, "_task", task)
    course = Course(book.exam.__class__(book.exam.root, (), ("01",), 9), 2, lambda line: None)
    report = course.graded(klass)
    assert course.broken == ["bob"]
    found = {one.name: one.items[0] for one in report.submissions}
    assert (found["anna"].verdict, found["bob"].verdict) == ("passed", "error")
    assert "the grading of it stopped" in found["bob"].message


def test_a_worker_that_ends_costs_its_task_alone() -> None:
    """What is no task at all ends its worker; the next task gets a new one."""
    found = []
    with Pool(1) as pool:
        tasks = [{"kind": "x", "exam": {}}, {"kind": "y"}]
        pool.run(tasks, 60, lambda task, answer: found.append(answer))
        pool.workers[0].stop()
        pool.run(tasks[:1], 60, lambda task, answer: found.append(answer))
    assert [list(answer) for answer in found] == [["failed"]] * 3


def test_which_chapters(book: GradedBook) -> None:
    loaded = book.load()
    assert chapters(loaded, None) == ()
    assert chapters(loaded, "01") == (1,)
    assert chapters(loaded, "0-1") == (0, 1)
    assert chapters(loaded, "01, 00") == (0, 1)
    for wrong in ("", "one", "1-0", "07"):
        with pytest.raises(UserError):
            chapters(loaded, wrong)


def test_wrong_use(
    book: GradedBook,
    klass: Path,
    tmp_path: Path,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["--root", str(book.root), "grade", "--out", str(tmp_path / "out")]
    for words in (
        ["--submissions", str(klass)],
        ["--submissions", str(tmp_path / "none"), "--exercises", "01"],
        ["--submissions", str(klass), "--exercises", "99"],
        ["--submissions", str(klass), "--chapters", "one"],
        ["--submissions", str(klass), "--chapters", "1-0"],
        ["--submissions", str(klass), "--chapters", "01", "-j", "0"],
    ):
        assert main([*command, *words]) == 2
    golden("grade_wrong_use", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_chapter_without_parity_models_is_refused(
    book: GradedBook, klass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(book, klass, tmp_path / "out", "--chapters", "00-01") == 2
    said = capsys.readouterr().err
    assert "chapter 00 can't be graded: its step.toml lists no models under [parity]" in said


def test_without_bubblewrap_there_is_a_warning_in_each_report(
    book: GradedBook, klass: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("namespaces", "limits"):
        monkeypatch.setattr(isolation, "strictest", lambda kind=kind: kind)
        report = book.grade(laid(klass / "anna", {}))
        assert report.isolation == kind
        assert isolation.WARNINGS[kind] in report.notes
        assert report.items[-1].verdict == "passed"


def test_a_link_to_another_folder_is_not_graded_in_its_place(
    book: GradedBook, klass: Path, tmp_path: Path
) -> None:
    (klass / "mallory").symlink_to(klass / "anna")
    (klass / "gone.zip").symlink_to(tmp_path / "nowhere")
    out = tmp_path / "out"
    assert grade(book, klass, out) == 0
    report = load_class(out / "grades.json")
    found = {one.name: one.items[0] for one in report.submissions}
    assert list(found) == ["anna", "bob", "eve", "gone", "mallory"]
    for name in ("mallory", "gone"):
        assert found[name].verdict == "missing" and "is a link" in found[name].message
    assert found["anna"].verdict == "passed"


@pytest.mark.parametrize("place", ["", "out", "anna/out", "anna"])
def test_reports_are_kept_out_of_the_submissions(
    book: GradedBook, klass: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    before = sorted(klass.rglob("*"))
    assert grade(book, klass, klass / place) == 2
    assert "lies among the submissions" in capsys.readouterr().err
    assert sorted(klass.rglob("*")) == before
    students = klass.rename(klass.parent / "students")
    assert grade(book, students, students.parent) == 2


def test_a_place_that_can_not_be_written_is_told_before_anything_is_graded(
    book: GradedBook, klass: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grade(book, klass, Path("/proc/x")) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: /proc/x can't be written") and not said.out


def test_a_name_sends_no_command_to_the_terminal(
    book: GradedBook, klass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (klass / "eve").rename(klass / "eve\n\x1b[31m")
    assert grade(book, klass, tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "eve \ufffd[31m" in said and "\x1b" not in said


def test_what_changed_while_it_was_graded_is_graded_again(
    book: GradedBook, klass: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = klass / "bob/01/answer.py"
    answer.write_text(WRONG + "# before\n")
    prepare = Course._prepare

    def mended(course: Course, pool: Pool, waiting: list[object]) -> None:
        prepare(course, pool, waiting)
        answer.write_text(RIGHT)

    monkeypatch.setattr(Course, "_prepare", mended)
    assert grade(book, klass, tmp_path / "one") == 0
    monkeypatch.setattr(Course, "_prepare", prepare)
    answer.write_text(WRONG + "# before\n")
    assert grade(book, klass, tmp_path / "two") == 0
    report = load_class(tmp_path / "two" / "grades.json")
    assert {one.name: one.points for one in report.submissions}["bob"] == 0


def test_the_books_own_solution_is_named(book: GradedBook, klass: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert grade(book, klass, out) == 0
    notes = {one.name: one.notes for one in load_class(out / "grades.json").submissions}
    said = "01/answer.py is the book's own solution, byte for byte."
    assert said in notes["anna"] and said not in notes["bob"]


@pytest.mark.parametrize("name", ["index.html", "grades.csv"])
def test_files_of_something_else_are_not_overwritten(
    book: GradedBook, klass: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = laid(tmp_path / "out", {name: "mine"}) / name
    assert grade(book, klass, tmp_path / "out") == 2
    assert f"holds {name} of something else" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_message_that_is_no_text_stops_nobody(
    book: GradedBook, klass: Path, tmp_path: Path
) -> None:
    for answer in ('raise ValueError("\\ud800 \\x00 \\x1b[31m")\n', 'raise KeyError("\\udcff")\n'):
        laid(klass, {"bob/01/answer.py": answer})
        assert grade(book, klass, tmp_path / "out") == 0
        report = load_class(tmp_path / "out" / "grades.json")
        assert [one.points for one in report.submissions] == [20, 0, 0]
        assert "Error" in report.submissions[1].items[0].message
