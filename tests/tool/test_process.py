"""Children: what they may load, and that none is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steplib.outcome import Job, Outcome
from steplib.paths import ROOT
from steplib.process import Launcher, Runner, running, stop_all
from steplib.pump import Pump
from steplib.warm import Warm

PIDS = "import os, subprocess, time\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A tree with one module, and a scratch folder with what mains share."""
    for folder in ("tree/minisgl", "scratch"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tree/minisgl/__init__.py").write_text("")
    (tmp_path / "tree/minisgl/core.py").write_text("ONE = 1\n")
    (tmp_path / "scratch/book.py").write_bytes((ROOT / "steps/book.py").read_bytes())
    return tmp_path


@pytest.fixture(params=["fresh", "warm"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    """Both ways of running a job; all that they promise holds for both."""
    if request.param == "fresh":
        yield Launcher()
    else:
        with Warm(preload=("json",)) as warm:
            yield warm


def job(place: Path, text: str, **flags: Any) -> Job:
    (place / "scratch/main.py").write_text(text)
    body = {"script": "main.py", "argv": ["--flag"]}
    return Job("main", place / "tree", place / "scratch", ROOT, body, **flags)


def error(outcome: Outcome) -> str:
    [record] = outcome.of_kind("error")
    return str(record["message"])


def test_a_main_sees_its_arguments_and_its_tree(place: Path, runner: Runner) -> None:
    text = "import sys\nfrom minisgl.core import ONE\nprint(sys.argv, ONE, __name__)\n"
    done = runner.run(job(place, text), 20)
    assert (done.ending, done.stdout) == ("done", "['main.py', '--flag'] 1 __main__\n")
    assert done.end["modules"]["minisgl.core"][0] == "minisgl/core.py"
    assert done.end["violations"] == []


def test_stdout_and_stderr_are_kept_apart(place: Path, runner: Runner) -> None:
    done = runner.run(job(place, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n"), 20)
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_endless_output_does_not_fill_the_memory(place: Path, runner: Runner) -> None:
    done = runner.run(job(place, "while True:\n    print('x' * 10_000)\n"), 1.5)
    assert done.ending == "timed out"
    assert len(done.stdout) < 2_000_000


def test_executed_lines_are_reported(place: Path, runner: Runner) -> None:
    (place / "tree/minisgl/core.py").write_text(
        "def f(x):\n    if x:\n        return 1\n    return 2\n"
    )
    done = runner.run(job(place, "import minisgl.core\nminisgl.core.f(0)\n", coverage=True), 20)
    assert done.end["lines"]["minisgl/core.py"] == [1, 2, 4]


@pytest.mark.parametrize("folder", ["tree", "scratch"])
def test_a_file_may_not_hide_an_installed_module(folder: str, place: Path) -> None:
    (place / folder / "torch.py").write_text("")
    done = Launcher().run(job(place, "print('ran')\n"), 20)
    assert error(done) == "torch.py hides the installed module 'torch'; rename it"
    assert done.stdout == ""


def test_nothing_else_of_the_repository_can_be_read_or_imported(place: Path) -> None:
    other = ROOT / "tests" / "pairs.py"
    done = Launcher().run(job(place, f"open({str(other)!r})\n"), 20)
    assert error(done) == f"{other} lies outside the tree and can't be opened here"
    done = Launcher().run(job(place, "import steplib.parity\n"), 20)
    assert "parity" in error(done)
    done = Launcher().run(job(place, "import sys\nprint([p for p in sys.path])\n"), 20)
    assert str(ROOT / "tools") not in done.stdout


def test_configurations_and_tokenizers_of_transformers_can_be_used(place: Path) -> None:
    text = "from transformers import AutoTokenizer, LlamaConfig\nprint(LlamaConfig().hidden_size)\n"
    done = Launcher().run(job(place, text), 120)
    assert (done.stdout, done.end["violations"]) == ("4096\n", [])


def test_a_second_process_where_the_manifest_allows_it(place: Path, runner: Runner) -> None:
    text = "import subprocess\nprint(subprocess.check_output(['echo', 'hi']).decode())\n"
    assert runner.run(job(place, text, second_process=True), 20).stdout == "hi\n\n"


def test_no_process_is_left_when_a_main_ends_or_hangs(place: Path, runner: Runner) -> None:
    start = PIDS + "child = subprocess.Popen(['sleep', '60'])\nprint(child.pid, flush=True)\n"
    for text, ending in ((start, "done"), (start + "time.sleep(60)\n", "timed out")):
        done = runner.run(job(place, text, second_process=True), 1.5)
        assert done.ending == ending
        assert is_gone(int(done.stdout))


def is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except OSError:
            pass
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_a_warm_process_goes_on_after_a_job_that_died_or_hung(place: Path) -> None:
    others = set(running)  # other tests of this session may keep a warm process
    with Warm(preload=("json",)) as warm:
        endings = [
            warm.run(job(place, text), 1.0).ending
            for text in ("import os\nos.kill(os.getpid(), 9)\n", "while True: pass\n", "print(1)\n")
        ]
    assert endings == ["crashed", "timed out", "done"]
    assert running <= others


def test_a_job_that_is_ended_in_the_middle_of_a_record_holds_nobody_up(place: Path) -> None:
    """What it wrote of the record must not swallow the word that it has ended."""
    text = "import os, time\nos.write({}, b'half a record')\n"
    with Warm(preload=("json",)) as warm:
        late = warm.run(job(place, text.format(warm.fd) + "time.sleep(60)\n"), 1.0)
        dead = warm.run(job(place, text.format(warm.fd) + "os.kill(os.getpid(), 9)\n"), 1.0)
        after = warm.run(job(place, "print(1)\n"), 20)
    assert [late.ending, dead.ending, after.ending] == ["timed out", "crashed", "done"]


def test_a_job_cannot_spoil_the_next_one(place: Path, runner: Runner) -> None:
    runner.run(
        job(place, "import json\njson.dumps = None\nimport minisgl.core as c\nc.ONE = 2\n"), 20
    )
    text = "import json, minisgl.core as c\nprint(json.dumps([c.ONE]))\n"
    assert runner.run(job(place, text), 20).stdout == "[1]\n"


INTERRUPTED = """
import sys
sys.path.insert(0, {tools!r})
from pathlib import Path
from steplib.outcome import Job
from steplib.process import Launcher
place = Path({place!r})
body = {{"script": "main.py", "argv": []}}
Launcher().run(Job("main", place / "tree", place / "scratch", Path({root!r}), body), 60)
"""


CHECKED = """
import sys
sys.path[:0] = [{tools!r}, {here!r}]
from pathlib import Path
from runnable_book import MAIN, RunnableBook
from steplib.context import Limits
book = RunnableBook(Path({place!r}) / "book")
write = "    import os, time\\n    open({note!r}, 'w').write(str(os.getpid()))\\n"
write += "    time.sleep(60)\\n"
book.edit(MAIN, "    book.report(generation)\\n", write)
book.check("main", "tests", limits=Limits(60, 60, 60))
"""


def test_an_interrupted_check_ends_at_once(place: Path) -> None:
    note, here = place / "pid", Path(__file__).parent
    text = CHECKED.format(
        tools=str(ROOT / "tools"), here=str(here), place=str(place), note=str(note)
    )
    tool = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)
    wait_for(note)
    tool.send_signal(signal.SIGINT)
    _, said = tool.communicate(timeout=15)
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert is_gone(int(note.read_text()))


def wait_for(note: Path) -> None:
    for _ in range(600):
        if note.is_file() and note.read_text():
            return
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_tool_leaves_no_child(how: signal.Signals, place: Path) -> None:
    note = place / "pid"
    job(
        place,
        f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n",
    )
    text = INTERRUPTED.format(tools=str(ROOT / "tools"), place=str(place), root=str(ROOT))
    tool = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.DEVNULL)
    wait_for(note)
    tool.send_signal(how)
    tool.wait(10)
    assert is_gone(int(note.read_text()))


def test_stop_all_ends_what_runs_in_other_threads(place: Path) -> None:
    from threading import Thread

    ended: list[Outcome] = []
    sleeping = job(place, "import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    thread = Thread(target=lambda: ended.append(Launcher().run(sleeping, 60)))
    thread.start()
    for _ in range(100):
        time.sleep(0.05)
        if running:
            break
    time.sleep(0.3)
    stop_all()
    thread.join(10)
    assert [outcome.ending for outcome in ended] == ["crashed"]


def test_records_come_line_by_line_however_they_are_cut() -> None:
    """Nothing is told before its line ends; what follows waits for its own end."""
    ends = [os.pipe() for _ in range(3)]
    pump = Pump(*(read for read, _ in ends))
    records = ends[0][1]
    told = []
    for piece in (b"a", b"bc", b"\nde", b"f", b"\n\ng"):
        os.write(records, piece)
        told.append(pump.read(1))
    assert told == [b"", b"", b"abc\n", b"", b"def\n\n"]
    for pair in ends:
        for end in pair:
            os.close(end)
