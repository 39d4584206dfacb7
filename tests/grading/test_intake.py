"""What is handed in: folders and zips, and those that no honest student makes."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from pathlib import Path

import pytest
from graded_book import PARTS, GradedBook, laid
from test_dishonest import MOST, whole

from steplib import starter
from steplib.errors import UserError
from steplib.grading import intake, packages
from steplib.grading.intake import Refused, submissions, take

Zipped = dict[str, str]


def zipped(place: Path, files: Zipped, links: Zipped | None = None) -> Path:
    """A zip with these files, and with links to these places."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        for path, target in (links or {}).items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, target)
    return place


def test_a_zip_is_graded_like_the_folder(book: GradedBook, tmp_path: Path) -> None:
    files = {f"homework/week 3/{path}": text for path, text in book.honest().items()}
    report = book.grade(zipped(tmp_path / "anna.zip", files))
    whole(report)
    assert (report.name, report.points) == ("anna", MOST)
    assert take(laid(tmp_path / "anna", files)).sha256 == report.sha256


@pytest.mark.parametrize(
    ("files", "links", "said"),
    [
        ({"../../outside.py": "x"}, {}, "leads out of its folder"),
        ({"minisgl/../../x.py": "x"}, {}, "leads out of its folder"),
        ({"..\\outside.py": "x"}, {}, "leads out of its folder"),
        ({"/tmp/outside.py": "x"}, {}, "leads out of its folder"),
        ({"C:/outside.py": "x"}, {}, "leads out of its folder"),
        ({}, {"minisgl/core.py": "/etc/passwd"}, "has a link"),
        ({"bomb.txt": "0" * (intake.MOST_BYTES + 1)}, {}, "more than 50 MB"),
        ({f"{i}.py": "" for i in range(intake.MOST_FILES + 1)}, {}, "more than 5000 files"),
    ],
    ids=["dots", "dots inside", "backslash", "absolute", "drive", "link", "bomb", "files"],
)
def test_a_hostile_zip_is_refused_with_a_sentence(
    book: GradedBook, tmp_path: Path, files: Zipped, links: Zipped, said: str
) -> None:
    report = book.grade(zipped(tmp_path / "eve.zip", files, links))
    whole(report)
    assert report.points == 0 and said in report.notes[-1]
    assert {item.verdict for item in report.items} == {"missing"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["eve.zip"]


def test_what_is_no_zip(book: GradedBook, tmp_path: Path) -> None:
    (tmp_path / "max.zip").write_bytes(b"PK\x03\x04" + b"\0" * 50)
    report = book.grade(tmp_path / "max.zip")
    whole(report)
    assert "the zip can't be read" in report.notes[-1]


def test_a_link_out_of_the_folder_is_not_followed(book: GradedBook, tmp_path: Path) -> None:
    folder = laid(tmp_path / "student", book.honest())
    (folder / PARTS[3]).unlink()
    (folder / PARTS[3]).symlink_to(book.root / PARTS[3])
    (folder / "all").symlink_to("/")
    report = book.grade(folder)
    whole(report)
    assert [item.id[-12:] for item in report.items if item.points == 0] == ["3_multiplies"]
    notes = " ".join(report.notes)
    assert f"{PARTS[3]} is a link to {book.root / PARTS[3]}; it was not followed." in notes
    assert "all is a link to /" in notes


def test_a_pipe_is_left_aside(tmp_path: Path) -> None:
    folder = laid(tmp_path / "student", {"a.py": ""})
    os.mkfifo(folder / "b.py")
    taken = take(folder)
    assert list(taken.files) == ["a.py"] and "b.py is no plain file" in taken.notes[0]


def test_a_submission_that_is_itself_a_link(tmp_path: Path) -> None:
    (tmp_path / "student").symlink_to("/etc")
    with pytest.raises(Refused, match="is a link"):
        take(tmp_path / "student")


def test_by_products_are_passed_over(tmp_path: Path) -> None:
    files = dict.fromkeys(["minisgl/a.py", ".git/x", "minisgl/__pycache__/a.pyc"], "x")
    assert list(take(laid(tmp_path / "student", files)).files) == ["minisgl/a.py"]


def test_the_class_is_what_lies_in_the_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        submissions(tmp_path / "none")
    with pytest.raises(UserError, match="holds no submission"):
        submissions(tmp_path)
    laid(tmp_path, {"bob/a.py": "", ".hidden/a.py": "", "list.csv": ""})
    zipped(tmp_path / "anna.zip", {"a.py": ""})
    assert [path.name for path in submissions(tmp_path)] == ["anna.zip", "bob"]
    zipped(tmp_path / "bob.zip", {"a.py": ""})
    with pytest.raises(UserError, match="bob twice"):
        submissions(tmp_path)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_zip_is_refused(tmp_path: Path, method: int) -> None:
    place = tmp_path / "max.zip"
    with zipfile.ZipFile(place, "w", method) as archive:
        archive.writestr("a.py", "".join(f"x{number} = {number}\n" for number in range(500)))
    data = bytearray(place.read_bytes())
    data[60:140] = bytes(byte ^ 0xFF for byte in data[60:140])
    place.write_bytes(data)
    with pytest.raises(Refused, match="the zip can't be read"):
        take(place)


def test_a_zip_in_capitals_is_a_submission_and_other_files_are_told(tmp_path: Path) -> None:
    zipped(tmp_path / "Anna.ZIP", {"a.py": ""})
    laid(tmp_path, {"bob.py": "", "carl.tar.gz": "", ".hidden": ""})
    assert [intake.name_of(path) for path in submissions(tmp_path)] == ["Anna"]
    assert intake.passed_over(tmp_path) == ["bob.py", "carl.tar.gz"]


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/an\xffna"))
    laid(folder, {"a.py": ""})
    (folder / os.fsdecode(b"b\xff.py")).write_text("")
    (folder / "c.py").symlink_to(os.fsdecode(b"d\xff.py"))
    taken = take(folder)
    assert taken.name == "an\ufffdna" and sorted(taken.files) == ["a.py", "b\ufffd.py"]
    assert json.dumps([*taken.files, *taken.notes, taken.sha256], ensure_ascii=False).encode()


@pytest.mark.parametrize("number", ["Infinity", "1e999", "[1]", "99", '"x"'])
def test_a_manifest_with_an_impossible_chapter(book: GradedBook, number: str) -> None:
    files = {path: text.encode() for path, text in book.honest().items()}
    files[".handbook.json"] = f'{{"chapter": {number}, "laid": {{}}}}'.encode()
    found = packages.packages(book.load(), intake.HandedIn("anna", files), [1])
    assert found[1].chapter == 1


def test_a_zip_with_backslashes_is_read_as_its_folder(tmp_path: Path) -> None:
    place = zipped(tmp_path / "win.zip", {"mine\\": "", "mine\\minisgl\\a.py": "x = 1\n"})
    assert take(place).files == {"mine/minisgl/a.py": b"x = 1\n"}


def test_an_archive_inside_is_named(tmp_path: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", {"a.py": ""}).read_bytes()
    laid(tmp_path / "ada", {"b.py": ""})
    (tmp_path / "ada" / "work.ZIP").write_bytes(inner)
    assert take(tmp_path / "ada").notes == [
        "work.ZIP was not unpacked; hand in the files themselves."
    ]


def test_what_a_mac_leaves_beside_submissions_is_none(tmp_path: Path) -> None:
    laid(tmp_path, {"__MACOSX/ada/._a.py": "", "ada/a.py": ""})
    assert [path.name for path in submissions(tmp_path)] == ["ada"]
    assert intake.passed_over(tmp_path) == ["__MACOSX"]


def test_two_names_that_read_alike_are_both_told(tmp_path: Path) -> None:
    for raw in (b"an\xffna", b"an\xfena"):
        os.mkdir(os.fsencode(tmp_path) + b"/" + raw)
    with pytest.raises(UserError, match="twice, as an\ufffdna and an\ufffdna; remove one"):
        submissions(tmp_path)


def test_what_can_not_be_read_costs_its_own_submission_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who is root may read everything, so the refusal is made up."""
    laid(tmp_path / "ada", {"a.py": ""})

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(Refused, match=r"a\.py can't be read: Permission denied"):
        take(tmp_path / "ada")


def test_what_a_later_start_laid_is_named_and_earns_nothing(
    book: GradedBook, tmp_path: Path
) -> None:
    loaded = book.load()
    given = starter.contents(loaded, 1)
    given[".handbook.json"] = b'{"chapter": 1, "laid": {}}'
    found = packages.packages(loaded, intake.HandedIn("anna", given), [0, 1])[0]
    said = "1 of the 1 files of chapter 00 with tasks is the book's own, byte for byte."
    assert said in packages.notes(loaded, found, [0])
    assert said not in packages.notes(loaded, found, [1])
    assert packages.is_only_laid(loaded, found, 0) and not packages.is_only_laid(loaded, found, 1)
    found.files["minimal_engine.py"] += b"# mine\n"
    assert not packages.is_only_laid(loaded, found, 0)


@pytest.mark.parametrize(("count", "verb"), [(1, "is"), (2, "are")])
def test_files_of_the_book_are_counted(
    count: int, verb: str, book: GradedBook, tmp_path: Path
) -> None:
    files = book.honest()
    for path in PARTS[:count]:
        files[path] = files[path].removesuffix("# mine\n")
    handed_in = intake.take(laid(tmp_path / "ada", files))
    loaded = book.load()
    found = packages.packages(loaded, handed_in, [1])[1]
    [note] = packages.notes(loaded, found, [1])
    which = "of the 11 files of chapter 01 with tasks"
    assert note == f"{count} {which} {verb} the book's own, byte for byte."
