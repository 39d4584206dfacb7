"""The command line: quick, one sentence for each mistake, and the promised exit status."""

from __future__ import annotations

import errno
import importlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook

from steplib import cli
from steplib.cli import main
from steplib.commands import list as list_command
from steplib.commandtable import COMMANDS
from steplib.paths import ROOT

Golden = Callable[[str, str], None]
TOOL = [sys.executable, str(ROOT / "tools/steps.py")]


def test_help_is_quick() -> None:
    times = []
    for _ in range(5):
        start = time.perf_counter()
        done = subprocess.run([*TOOL, "--help"], capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - start)
    assert all(command.name in done.stdout for command in COMMANDS)
    assert min(times) < 0.5


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_its_module(command: cli.Command) -> None:
    assert callable(importlib.import_module(command.module).run)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown_command", ["chek"]),
        ("command_like_no_other", ["zzz"]),
        ("unknown_option", ["list", "--al"]),
        ("missing_argument", ["assemble", "1"]),
        ("unknown_action", ["models", "lst"]),
        ("unknown_chapter", ["tree", "9"]),
        ("no_book", ["--root", "/", "list"]),
        ("empty_mine", ["check", "1", "--mine", ""]),
        ("empty_into", ["start", "1", "--into", ""]),
    ],
)
def test_wrong_use_is_one_sentence(
    made_up: MadeUpBook,
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    name: str,
    words: list[str],
) -> None:
    root = [] if "--root" in words else ["--root", str(made_up.root)]
    assert main([*root, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    golden(f"cli_{name}", err)


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: steps.py" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["list"], ["tree", "1"], ["tree", "2"]], ids="_".join)
def test_what_is_printed(
    made_up: MadeUpBook, golden: Golden, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(["--root", str(made_up.root), *words]) == 0
    golden("cli_" + "_".join(words), capsys.readouterr().out)


def test_tree_in_a_terminal_has_the_same_files(made_up: MadeUpBook) -> None:
    controller, terminal = pty.openpty()
    command = [*TOOL, "--root", str(made_up.root), "tree", "2"]
    subprocess.run(command, stdout=terminal, check=True)
    os.close(terminal)
    shown = os.read(controller, 1 << 16).decode()
    os.close(controller)
    assert "\x1b[" in shown
    assert all(path in shown for path in made_up.load().tree(2).files)


def test_tree_write_mends_a_stale_tree(
    made_up: MadeUpBook, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up.append("minisgl/ops.py", "# more\n")
    assert len(made_up.load().problems()) == 1
    assert main(["--root", str(made_up.root), "tree", "all", "--write"]) == 0
    golden("cli_tree_write", capsys.readouterr().out)
    assert made_up.load().problems() == []


def test_assemble_writes_the_tree_and_nothing_else(made_up: MadeUpBook, tmp_path: Path) -> None:
    into = tmp_path / "new" / "tree"
    assert main(["--root", str(made_up.root), "assemble", "1", "--into", str(into)]) == 0
    files = made_up.load().tree(1).files
    assert {p.relative_to(into).as_posix() for p in into.rglob("*") if p.is_file()} == {*files}
    assert all((into / path).read_bytes() == file.data for path, file in files.items())
    assert [path.name for path in into.parent.iterdir()] == ["tree"]


def test_assemble_refuses_a_folder_with_files(
    made_up: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("mine")
    assert main(["--root", str(made_up.root), "assemble", "1", "--into", str(tmp_path)]) == 2
    assert "not an empty folder" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "mine"


def test_assemble_leaves_nothing_half_written(made_up: MadeUpBook, tmp_path: Path) -> None:
    made_up.remove("minisgl/ops.py")
    into = tmp_path / "tree"
    assert main(["--root", str(made_up.root), "assemble", "2", "--into", str(into)]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["book"]


def _fails_with(error: BaseException) -> Callable[..., int]:
    def run(*_: object) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("name", "error", "status"),
    [
        ("interrupted", KeyboardInterrupt(), 130),
        ("disk_full", OSError(errno.ENOSPC, "No space left on device", "models/x"), 2),
        ("no_folder", IsADirectoryError(errno.EISDIR, "Is a directory", "draft", 0, "out"), 2),
        ("no_access", PermissionError(errno.EACCES, "Permission denied", "steps/x"), 2),
    ],
)
def test_trouble_is_one_sentence(
    golden: Golden,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: BaseException,
    status: int,
) -> None:
    monkeypatch.setattr(list_command, "run", _fails_with(error))
    assert main(["list"]) == status
    golden(f"cli_{name}", capsys.readouterr().err)


def test_a_python_without_the_packages(tmp_path: Path) -> None:
    """-S leaves out what is installed: grade names a package, and doctor lists them all."""
    bare = [sys.executable, "-S", *TOOL[1:]]
    words = ["grade", "--submissions", str(tmp_path), "--chapters", "00", "--out", str(tmp_path)]
    ran = subprocess.run([*bare, *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: this Python has no package pydantic; take the one that")
    assert ran.stderr.count("\n") == 1
    env = os.environ | {"HF_HUB_OFFLINE": "1"}
    ran = subprocess.run([*bare, "doctor"], capture_output=True, text=True, timeout=60, env=env)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "pydantic           not installed" in ran.stdout


def test_a_fault_of_the_tool_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_command, "run", _fails_with(OSError(errno.EIO, "bad", "x")))
    with pytest.raises(OSError, match="bad"):
        main(["list"])


def test_a_closed_output_is_one_sentence(made_up: MadeUpBook) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*TOOL, "--root", str(made_up.root), "list"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.returncode == 2
    assert done.stderr == "error: the output was closed before all of it was written\n"


def test_bugs_counts_marked_tests(made_up: MadeUpBook, capsys: pytest.CaptureFixture[str]) -> None:
    mark = '@public_bug("B06")\ndef probe_norm(seed): ...\n'
    mark += '@other("B05")\ndef probe_other(seed): ...\n'
    made_up.write("tests/test_ch01_core.py", mark)
    assert main(["--root", str(made_up.root), "bugs"]) == 0
    shown = capsys.readouterr().out
    assert "model: 1 of 7" in shown
    assert "tests/test_ch01_core.py::probe_norm" in shown


def test_bugs_counts_tests_that_are_no_pairs(
    made_up: MadeUpBook, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = '@public_bug("B05", "B06")\n@pytest.mark.parametrize("n", [1])\ndef test_it(n): ...\n'
    made_up.write("tests/service/test_it.py", plain)
    made_up.write("tests/service/test_two.py", '@public_bug("B06")\nasync def test_two(): ...\n')
    assert main(["--root", str(made_up.root), "bugs"]) == 0
    shown = capsys.readouterr().out
    assert "model: 2 of 7" in shown
    assert shown.count("tests/service/test_it.py::test_it") == 2
    assert "tests/service/test_two.py::test_two" in shown


def test_bugs_names_a_mark_without_a_row(
    made_up: MadeUpBook, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up.write("tests/test_ch01_core.py", '@public_bug("B999")\ndef probe_a(seed): ...\n')
    assert main(["--root", str(made_up.root), "bugs"]) == 1
    assert "there is no row B999" in capsys.readouterr().out
