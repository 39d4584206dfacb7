"""What can't be written is one plain sentence; what is no file is written into, not replaced."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from steplib.cli import main
from steplib.errors import UserError
from steplib.paths import write_all, write_atomically

needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")


@needs_proc
@pytest.mark.parametrize(
    "words",
    [
        ["start", "03", "--into", "/proc/x"],
        ["start", "03", "--into", "/proc/x/y"],
        ["assemble", "03", "--into", "/proc/x"],
        ["exercise", "start", "07", "--into", "/proc/x"],
        ["regrade", "/proc/x", "/proc/x"],
    ],
    ids=" ".join,
)
def test_a_place_where_nothing_can_be_made(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: /proc/x") and said.count("\n") == 1


@needs_proc
def test_a_file_where_nothing_can_be_made() -> None:
    for place in ("/proc/x", "/proc/x/y"):
        with pytest.raises(UserError, match=rf"{place}.* can't be written .*name another place"):
            write_atomically(Path(place), "text")


def test_a_circle_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(UserError, match="can't be written"):
        write_atomically(tmp_path / "a" / "file", "text")


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    write_all({pipe: "text", tmp_path / "file": "other"})
    reader.join(10)
    assert got == ["text"] and stat.S_ISFIFO(pipe.lstat().st_mode)
    assert (tmp_path / "file").read_text() == "other"


def test_a_device_stays_a_device() -> None:
    write_atomically(Path(os.devnull), "text")
    assert stat.S_ISCHR(Path(os.devnull).lstat().st_mode)


def test_the_terminal_of_dev_stays_a_link(capfd: pytest.CaptureFixture[str]) -> None:
    """Standard output may be a plain file here; it is not replaced all the same."""
    place = Path("/dev/stdout")
    if not place.is_symlink():
        pytest.skip("there is no /dev/stdout")
    write_atomically(place, "text")
    assert place.is_symlink() and "text" in capfd.readouterr().out
