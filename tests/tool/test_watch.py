"""Watching: one run a save, the failure that matters first, and a terminal that is put back."""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from runnable_book import CORE, TEST, RunnableBook

from steplib import starter, workfolder
from steplib.errors import UserError
from steplib.facts import Finding, failed
from steplib.paths import ROOT
from steplib.warm import Warm
from steplib.watching import failure, saves
from steplib.watching.failure import Failure
from steplib.watching.keys import Keys
from steplib.watching.loop import Loop
from steplib.watching.quick import Quick
from steplib.watching.run import Run
from steplib.watching.saves import Observed, Polled, Settling, observe, snapshot
from steplib.watching.screen import Screen

BARE = partial(Warm, preload=())
MORE = """

def probe_{0}(seed):
    from minisgl.core import Loop

    return Loop([1, 2]).{0}


def judge_{0}(seed, got):
    equal(got, {1}, "{0}")
"""


@pytest.fixture
def book(tmp_path: Path) -> RunnableBook:
    """Three pairs: the book's own, and two that look at what a new Loop holds."""
    made = RunnableBook(tmp_path / "book")
    made.append(TEST, MORE.format("ids", [1, 2]) + MORE.format("steps", 0))
    return made


@pytest.fixture
def folder(book: RunnableBook, tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    workfolder.to_start_in(place, book.root, 1).lay(starter.contents(book.load(), 1))
    return place


@pytest.fixture
def quick(book: RunnableBook, folder: Path) -> Iterator[Quick]:
    with Quick(book.load(), folder, None, "DIR", BARE) as made:
        yield made


def run(quick: Quick, before: Run | None = None) -> Run:
    """A run to its end."""
    found = quick.begin(lambda: None, before)
    assert found.thread is not None
    found.thread.join(30)
    assert found.is_over and found.error is None, found.error
    return found


def right(book: RunnableBook, old: str = "", new: str = "") -> str:
    text = book.read(CORE)
    assert old in text
    return text.replace(old, new)


def names(found: Run) -> list[str]:
    return [key.partition("::")[2] for key in found.done]


# The fast tier


def test_right_files_pass_every_pair(book: RunnableBook, folder: Path, quick: Quick) -> None:
    (folder / CORE).write_text(right(book))
    found = run(quick)
    assert (found.count("passed"), found.total, found.failures) == (3, 3, [])
    assert found.is_whole


def test_it_stops_at_the_first_failure(folder: Path, quick: Quick) -> None:
    found = run(quick)
    (first,) = found.failures
    assert len(found.done) == 1 and not found.is_whole
    text = "\n".join(first.lines())
    assert "write Loop.__init__" in text
    assert "  read      docs/chapters/01-core-data-structures.md" in text


def test_expected_and_got_are_shown(book: RunnableBook, folder: Path, quick: Quick) -> None:
    (folder / CORE).write_text(right(book, "self.steps = 0", "self.steps = 7"))
    text = "\n".join(run(quick).failures[0].lines())
    assert "  expected  1\n  got       8\n" in text


def test_the_pair_that_failed_last_runs_first(
    book: RunnableBook, folder: Path, quick: Quick
) -> None:
    (folder / CORE).write_text(right(book, "list(prompt)", "list(prompt[:1])"))
    assert names(run(quick))[-1] == "ids"
    assert names(run(quick)) == ["ids"]
    (folder / CORE).write_text(right(book))
    assert names(run(quick))[0] == "ids"
    assert quick.last_failed is None


def test_going_on_finds_the_next_failure(book: RunnableBook, folder: Path, quick: Quick) -> None:
    first = run(quick)
    second = run(quick, first)
    assert second.failures[0].test != first.failures[0].test
    third = run(quick, second)
    assert third.is_whole and len({str(it.failures[0].test) for it in (first, second, third)}) == 3


def test_a_syntax_error_is_told_without_running_a_pair(
    book: RunnableBook, folder: Path, quick: Quick
) -> None:
    (folder / CORE).write_text(right(book) + "def broken(:\n")
    found, last = run(quick), right(book).count("\n") + 1
    text = "\n".join(found.failures[0].lines())
    assert found.total == 0 and f"minisgl/core.py:{last}: this is not valid Python" in text


def test_the_warm_parent_holds_no_file_of_the_run_before(
    book: RunnableBook, folder: Path, quick: Quick
) -> None:
    (folder / CORE).write_text(right(book, "self.steps = 0", "self.steps = 7"))
    assert run(quick).failures
    (folder / CORE).write_text(right(book))
    assert not run(quick).failures


def test_a_run_that_hangs_can_be_ended(book: RunnableBook, folder: Path, quick: Quick) -> None:
    (folder / CORE).write_text(right(book, "        self.steps = 0", "        while True: pass"))
    found = quick.begin(lambda: None)
    time.sleep(0.5)
    begun = time.monotonic()
    found.cancel()
    assert found.thread is not None
    found.thread.join(10)
    assert time.monotonic() - begun < 5 and not found.failures
    (folder / CORE).write_text(right(book))
    assert run(quick).is_whole


def test_real_models_are_left_out(book: RunnableBook, folder: Path) -> None:
    book.write("models/smollm2-135m/config.json", "{}")
    with Quick(book.load(), folder, None, "DIR", BARE) as quick:
        models = Path(quick.lanes[0].environment["MINISGL_MODELS"])
        assert [path.name for path in models.iterdir()] == ["tiny-made"]
    assert not models.exists()


# Which hint is meant


@pytest.mark.parametrize(
    ("message", "subjects"),
    [
        (
            f"{TEST}::ids on your files: failed: it raised NotImplementedError: "
            "chapter 01, minisgl/core.py: write Loop.step (minisgl/core.py:3)",
            ["chapter 01, minisgl/core.py: write Loop.step"],
        ),
        (
            f"{TEST}::ids on your files: failed: TypeError (minisgl/core.py:8)",
            [f"{CORE}::Loop.__init__", f"{CORE}::Loop", CORE],
        ),
        (f"{TEST}::steps on your files: failed: steps", [f"{CORE}::Loop"]),
        ("no place at all", []),
    ],
)
def test_what_a_failure_is_about(book: RunnableBook, message: str, subjects: list[str]) -> None:
    loaded = book.load()
    told = Failure("tests", Finding(message), "")
    assert failure.subjects(loaded, loaded.chapter(1), told) == subjects


def test_a_variable_of_a_test_is_no_method(book: RunnableBook) -> None:
    book.append(TEST, "\n\ndef probe_a_variable(seed):\n    step = seed\n    return step\n")
    loaded = book.load()
    told = Failure("tests", Finding(f"{TEST}::a_variable on your files: failed: x"), "")
    assert failure.subjects(loaded, loaded.chapter(1), told) == []


def test_what_a_helper_of_the_test_names_counts_too(book: RunnableBook) -> None:
    helper = "\n\ndef made():\n    from minisgl.core import Loop\n\n    return Loop([1])\n"
    book.append(TEST, helper + "\n\ndef probe_by_a_helper(seed):\n    return made()\n")
    loaded = book.load()
    told = Failure("tests", Finding(f"{TEST}::by_a_helper on your files: failed: x"), "")
    assert failure.subjects(loaded, loaded.chapter(1), told) == [f"{CORE}::Loop"]


def test_the_place_in_the_page_of_what_a_test_is_about(book: RunnableBook) -> None:
    page = '# Loop\n\n```python title="minisgl/core.py"\n```\n'
    book.write("docs/chapters/01-core-data-structures.md", page)
    loaded = book.load()
    result = failed("tests", Finding(f"{TEST}::steps on your files: failed: steps"))
    (told,) = failure.of_result(loaded, loaded.chapter(1), "tests", result)
    assert told.read == "docs/chapters/01-core-data-structures.md, line 3"


# Saves


def eventually(holds: Callable[[], Any], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def save_in_place(file: Path) -> None:
    file.write_text("a = 1\n")


def save_by_rename(file: Path) -> None:
    draft = file.with_name(f".{file.name}.swp")
    draft.write_text("a = 2\n")
    os.replace(draft, file)


def save_with_backup(file: Path) -> None:
    file.rename(f"{file}~")
    file.write_text("a = 3\n")


@pytest.mark.parametrize("save", [save_in_place, save_by_rename, save_with_backup])
@pytest.mark.parametrize("source", [Observed, partial(Polled, every=0.05)])
def test_each_way_to_save_is_seen(
    save: Callable[[Path], None], source: Callable[..., Observed | Polled], folder: Path
) -> None:
    told, before = threading.Event(), snapshot(folder)
    watched = source(folder, told.set)
    try:
        save(folder / CORE)
        assert told.wait(10)
    finally:
        watched.stop()
    after = snapshot(folder)
    assert after.keys() == before.keys() and after[CORE] != before[CORE]


@pytest.mark.parametrize(
    "name", ["minisgl/.core.py.swp", "minisgl/core.py~", "minisgl/4913", "minisgl/#core.py#"]
)
def test_what_an_editor_leaves_is_no_change(name: str, folder: Path) -> None:
    before = snapshot(folder)
    (folder / name).write_text("x")
    assert snapshot(folder) == before


def test_a_folder_that_goes_away_meanwhile_is_passed_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "minisgl" / "gone").mkdir()
    before, scandir = snapshot(folder), os.scandir

    def going(place: str | Path) -> object:
        if str(place).endswith("gone"):
            raise FileNotFoundError(2, "No such file or directory", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", going)
    assert before and snapshot(folder) == before


@pytest.mark.parametrize("pause", [0.0, 2 * saves._LOOK_EVERY])
def test_a_folder_that_is_made_again_is_still_watched(
    folder: Path, tmp_path: Path, pause: float
) -> None:
    told = threading.Event()
    watched = Observed(folder, told.set)
    try:
        shutil.copytree(folder, tmp_path / "copy")
        shutil.rmtree(folder)
        time.sleep(pause)
        shutil.copytree(tmp_path / "copy", folder)
        time.sleep(2 * saves._LOOK_EVERY)
        told.clear()
        save_in_place(folder / CORE)
        assert told.wait(10)
    finally:
        watched.stop()


def test_an_arrow_key_is_no_letter() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as source, Keys(source) as keys:
        for pressed, read in (("\x1b[A", ""), ("h\x1b[1;5Qn", "hn"), ("\x1bOq", ""), ("A", "a")):
            os.write(ours, pressed.encode())
            assert keys.read() == read
    os.close(ours)


def test_reading_is_no_save(folder: Path) -> None:
    told = threading.Event()
    watched = Observed(folder, told.set)
    snapshot(folder)
    assert not told.wait(0.3)
    watched.stop()


@pytest.mark.parametrize("error", [OSError(28, "inotify watch limit"), ImportError("watchdog")])
def test_looking_takes_over_where_the_system_cannot_tell(
    error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(saves, "Observed", refuse)
    watched = observe(folder, lambda: None, poll=False)
    assert isinstance(watched, Polled)
    watched.stop()


def test_poll_is_heard(folder: Path) -> None:
    watched = observe(folder, lambda: None, poll=True)
    assert isinstance(watched, Polled)
    watched.stop()


def test_many_changes_are_one_save(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(saves.time, "monotonic", lambda: now)
    settling = Settling()
    assert settling.left is None and not settling.take()
    settling.put()
    now = 100.05
    settling.put()
    now = 100.12
    assert not settling.take()
    now = 100.16
    assert settling.take() and not settling.take()


def test_changes_without_end_are_a_save_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(saves.time, "monotonic", lambda: now)
    settling = Settling()
    for _ in range(9):
        settling.put()
        assert not settling.take()
        now += 0.06
    assert settling.take()


# The loop


class FakeQuick:
    """Runs that end when the test says so."""

    def __init__(self, book: RunnableBook, folder: Path) -> None:
        self.book, self.folder, self.runs = book.load(), folder, []  # type: ignore[var-annotated]

    def begin(self, wake: Callable[[], None], before: Run | None = None) -> Run:
        run = Run(total=2, begun=time.monotonic())
        run.thread = threading.Thread(target=lambda: (run.stop.wait(20), wake()))
        run.thread.start()
        self.runs.append((run, before))
        return run

    def end(self, *failures: str) -> None:
        run = self.runs[-1][0]
        run.failures += [Failure("tests", Finding(said), "PAGE") for said in failures]
        run.stop.set()


class FakeFull:
    def __init__(self, facts: dict[str, Any] | None = None) -> None:
        self.is_over, self.is_cancelled, self.told = False, False, facts

    def cancel(self) -> None:
        self.is_cancelled = True

    def facts(self) -> dict[str, Any] | None:
        return self.told


class Bench:
    """A loop in a thread of its own, with keys from a pipe."""

    def __init__(self, book: RunnableBook, folder: Path) -> None:
        self.quick, self.full, self.hints = FakeQuick(book, folder), FakeFull(), []  # type: ignore[var-annotated]
        read, self.write = os.pipe()
        keys = Keys(io.StringIO())
        keys.fd = read
        self.loop = Loop(self.quick, keys, Screen(), self.hint, lambda: self.full)  # type: ignore[arg-type, return-value]
        self.thread = threading.Thread(target=self.loop.forever)
        self.thread.start()
        assert eventually(lambda: self.quick.runs)

    def hint(self, failed: Failure) -> str:
        self.hints.append(failed.finding.message)
        if len(self.hints) > 2:
            raise UserError("there is none.")
        return f"HINT {len(self.hints)}"

    def press(self, keys: str) -> None:
        os.write(self.write, keys.encode())

    def save(self, text: str) -> None:
        (self.quick.folder / CORE).write_text(text)
        self.loop.saved()


@pytest.fixture
def bench(book: RunnableBook, folder: Path) -> Iterator[Bench]:
    made = Bench(book, folder)
    yield made
    made.press("q")
    made.thread.join(10)
    assert not made.thread.is_alive()
    assert all(run.is_over for run, _ in made.quick.runs)


def over(bench: Bench, *failures: str) -> None:
    bench.quick.end(*failures)
    assert eventually(lambda: bench.loop.run is None)


def test_saves_during_a_run_lead_to_one_more(bench: Bench) -> None:
    for number in range(3):
        bench.save(f"a = {number}\n")
    assert eventually(lambda: len(bench.quick.runs) == 2)
    assert bench.quick.runs[0][0].is_cancelled
    time.sleep(0.3)
    assert len(bench.quick.runs) == 2


def test_a_save_without_a_change_runs_nothing(bench: Bench, folder: Path) -> None:
    over(bench)
    bench.save((folder / CORE).read_text())
    time.sleep(0.4)
    assert len(bench.quick.runs) == 1


def test_hints_go_on_with_the_failure_that_is_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    over(bench, "one", "two")
    bench.press("h")
    assert eventually(lambda: bench.hints == ["one"])
    bench.press("nhh")
    assert eventually(lambda: bench.hints == ["one", "two", "two"])
    assert eventually(lambda: "HINT 2\nno hint: there is none.\n" in told(bench, capsys))


def told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> str:
    bench.out = getattr(bench, "out", "") + capsys.readouterr().out  # type: ignore[attr-defined]
    return str(bench.out)  # type: ignore[attr-defined]


def test_next_shows_what_is_known_and_then_goes_on(bench: Bench) -> None:
    over(bench, "one", "two")
    bench.press("n")
    assert eventually(lambda: bench.loop.shown == 2)
    bench.press("n")
    assert eventually(lambda: len(bench.quick.runs) == 2)
    assert bench.quick.runs[1][1] is bench.quick.runs[0][0]


def test_a_save_during_a_full_check_leads_to_a_quick_one(bench: Bench) -> None:
    bench.press("a")
    assert eventually(lambda: bench.loop.full)
    assert bench.quick.runs[0][0].is_cancelled
    bench.save("a = 1\n")
    time.sleep(0.3)
    assert len(bench.quick.runs) == 1 and not bench.full.is_cancelled
    bench.full.is_over = True
    assert eventually(lambda: len(bench.quick.runs) == 2)


def test_the_failures_of_a_full_check_can_be_gone_through(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = {"where": "", "expected": None, "got": None, "mend": ""}
    findings = [{"message": f"{TEST}::{name} failed", **finding} for name in ("ids", "steps")]
    check = {"check": "tests", "verdict": "failed", "findings": findings}
    bench.full.told = {"chapters": [{"number": 1, "checks": [check]}]}
    bench.press("a")
    assert eventually(lambda: bench.loop.full)
    bench.full.is_over = True
    assert eventually(lambda: bench.loop.full is None)
    bench.press("n")
    assert eventually(lambda: f"FAILED  tests\n  {TEST}::steps failed\n" in told(bench, capsys))


def test_leaving_ends_a_full_check(bench: Bench) -> None:
    bench.press("a")
    assert eventually(lambda: bench.loop.full)
    bench.press("q")
    assert eventually(lambda: bench.full.is_cancelled)


# A real terminal

COMMAND = """
import sys
sys.path[:0] = [{tools!r}]
from functools import partial
from steplib import cli
from steplib.commands import watch
from steplib.warm import Warm
watch.Quick = partial(watch.Quick, make=partial(Warm, preload=()))
sys.exit(cli.main({words!r}))
"""


class Terminal:
    """The command `watch` in a pseudo-terminal."""

    def __init__(self, book: RunnableBook, folder: Path) -> None:
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        words = ["--root", str(book.root), "watch", "01", "--mine", str(folder)]
        script = COMMAND.format(tools=str(ROOT / "tools"), words=words)
        self.process = subprocess.Popen(
            [sys.executable, "-c", script], stdin=self.theirs, stdout=self.theirs,
            stderr=self.theirs, preexec_fn=self._own_terminal, env={**os.environ, "TERM": "xterm"},
        )  # fmt: skip
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _own_terminal(self) -> None:
        import fcntl

        os.setsid()
        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)

    def _read(self) -> None:
        while True:
            try:
                self.text += os.read(self.ours, 4096).decode(errors="replace")
            except OSError:
                return

    def shows(self, pattern: str) -> bool:
        plain = r"\x1b\[[\d;?]*[A-Za-z]|\r"
        return eventually(lambda: re.search(pattern, re.sub(plain, "", self.text)), 30)

    def press(self, key: str) -> None:
        os.write(self.ours, key.encode())

    def leave(self) -> int:
        status = self.process.wait(20)
        assert termios.tcgetattr(self.theirs) == self.before
        assert eventually(lambda: self.text.count("\x1b[?25h") == self.text.count("\x1b[?25l"))
        return status


@pytest.fixture
def terminal(book: RunnableBook, folder: Path) -> Iterator[Terminal]:
    made = Terminal(book, folder)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.wait()
    os.close(made.theirs)
    os.close(made.ours)


def test_keys_in_a_terminal(terminal: Terminal, book: RunnableBook, folder: Path) -> None:
    assert terminal.shows("FAILED  tests"), terminal.text
    assert terminal.shows("stopped at a failure; so far 0 of 3 pairs passed, in"), terminal.text
    assert terminal.shows("q quit")
    assert not termios.tcgetattr(terminal.theirs)[3] & (termios.ICANON | termios.ECHO)
    terminal.press("h")
    assert terminal.shows("no hint: steps/01-core-data-structures/hints.toml"), terminal.text
    terminal.press("n")
    assert terminal.shows("write Loop.__init__(?s:.*)write Loop.__init__")
    (folder / CORE).write_text(right(book))
    assert terminal.shows("3 of 3 pairs passed"), terminal.text
    terminal.press("q")
    assert terminal.leave() == 0


@pytest.mark.parametrize(("how", "status"), [("\x03", 130), (signal.SIGTERM, 143)])
def test_the_terminal_is_put_back(terminal: Terminal, how: str | int, status: int) -> None:
    assert terminal.shows("FAILED  tests"), terminal.text
    if isinstance(how, str):
        terminal.press(how)
    else:
        terminal.process.send_signal(how)
    assert terminal.leave() == status


def test_an_error_puts_the_terminal_back() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    with os.fdopen(theirs, "r") as source:
        with pytest.raises(RuntimeError), Keys(source):
            assert termios.tcgetattr(theirs) != before
            raise RuntimeError
        assert termios.tcgetattr(theirs) == before
    os.close(ours)


def test_without_a_terminal_it_only_watches(book: RunnableBook, folder: Path) -> None:
    words = ["--root", str(book.root), "watch", "--mine", str(folder), "--poll"]
    script = COMMAND.format(tools=str(ROOT / "tools"), words=words)
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    head = next(lines)
    assert head.startswith(f"watching {folder} for chapter 01-core-data-structures (looking every")
    assert any(line.startswith("FAILED  tests") for line in lines)
    (folder / CORE).write_text(right(book))
    rest = next(line for line in lines if line.startswith(("PASSED", "FAILED")))
    assert rest.startswith("PASSED")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert "\x1b" not in head + rest and "h hint" not in process.stdout.read()
    process.stdout.close()
