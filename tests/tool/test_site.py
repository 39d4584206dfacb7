"""Building and publishing a small site, and the handbook's own settings."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_book import MadeUpBook

from steplib import cli, plan, site
from steplib.errors import UserError
from steplib.paths import ROOT
from steplib.publish import publish

Golden = Callable[[str, str], None]

SETTINGS = f"""\
site_name: Small
strict: true
copyright: Ours
theme: {{name: material, font: false, custom_dir: {ROOT / "tools" / "theme"}}}
repo_url: https://github.com/minisgl/minisgl-handbook
edit_uri: edit/main/docs/
plugins: [search, {{offline: {{enabled: !ENV [HANDBOOK_OFFLINE, false]}}}}]
extra: {{commit: !ENV [HANDBOOK_COMMIT, ""], polyfills: [assets/iframe-worker.js]}}
"""


@pytest.fixture
def small(made_up: MadeUpBook) -> MadeUpBook:
    """A committed book with a site of one page."""
    pytest.importorskip("material", reason='NOT TESTED: pip install -e ".[site]"')
    made_up.write("mkdocs.yml", SETTINGS)
    made_up.write("docs/index.md", "# Small\n\n<!-- begin: tree 02 -->\n<!-- end -->\n")
    made_up.write("docs/assets/iframe-worker.js", "// nothing\n")
    made_up.write(".gitignore", "dist/\nsite/\n.cache/\n")
    assert cli.main(["--root", str(made_up.root), "docs"]) == 0
    made_up.commit()
    for key, value in (("user.name", "A"), ("user.email", "a@example.com")):
        git(made_up, "config", key, value)
    return made_up


def git(book: MadeUpBook, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=book.root, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_folder_gets_the_stamped_site_and_a_zip_beside(small: MadeUpBook, tmp_path: Path) -> None:
    done = publish(small.root, str(tmp_path / "public"))
    page = (tmp_path / "public" / "index.html").read_text()
    assert done.commit == git(small, "rev-parse", "--short=12", "HEAD")
    assert f'<code class="handbook-commit">{done.commit}</code>' in page
    assert (tmp_path / "public" / ".nojekyll").exists()
    with zipfile.ZipFile(tmp_path / "public-offline.zip") as packed:
        assert "handbook/index.html" in packed.namelist()
        assert "handbook/search/search_index.js" in packed.namelist()


def test_publishing_again_replaces_the_folder(small: MadeUpBook, tmp_path: Path) -> None:
    publish(small.root, str(tmp_path / "public"))
    (tmp_path / "public" / "old.html").touch()
    publish(small.root, str(tmp_path / "public"))
    assert not (tmp_path / "public" / "old.html").exists()


def test_a_branch_gets_the_site_alone_and_the_working_copy_stays(small: MadeUpBook) -> None:
    before = small.contents()
    first = publish(small.root, "pages")
    assert first.branch == "pages" and first.zip == small.root / "dist" / "pages-offline.zip"
    files = git(small, "ls-tree", "-r", "--name-only", "pages").splitlines()
    assert "index.html" in files and ".nojekyll" in files and "mkdocs.yml" not in files
    assert first.commit in git(small, "show", "pages:index.html")
    publish(small.root, "pages")
    assert git(small, "rev-list", "--count", "pages") == "2"
    after = {k: v for k, v in small.contents().items() if not k.startswith("dist/")}
    assert {k: v for k, v in after.items() if not k.startswith(".cache/")} == {
        k: v for k, v in before.items() if not k.startswith(".cache/")
    }
    assert git(small, "status", "--porcelain") == ""


def test_the_branch_that_is_checked_out_is_refused(small: MadeUpBook) -> None:
    current = git(small, "rev-parse", "--abbrev-ref", "HEAD")
    with pytest.raises(UserError, match="is checked out here"):
        publish(small.root, current)


@pytest.mark.parametrize("name", ["a branch", "-x", "a..b"])
def test_a_bad_name_of_a_branch_is_refused(small: MadeUpBook, name: str) -> None:
    with pytest.raises(UserError, match="can't be the name of a branch"):
        publish(small.root, name)


def refused(book: MadeUpBook, to: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What the command says; it publishes nothing."""
    capsys.readouterr()
    assert cli.main(["--root", str(book.root), "site", "publish", "--to", str(to)]) == 2
    assert not to.exists()
    return capsys.readouterr().err


def test_what_is_not_committed_is_refused(
    small: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    small.write("docs/index.md", small.read("docs/index.md") + "\nMore.\n")
    golden("site_not_committed", refused(small, tmp_path / "public", capsys))


def test_a_stale_block_is_refused(
    small: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    small.manifest(
        2, small.read("steps/02-op-layer/step.toml").replace('modifies = ["minisgl/core.py"]\n', "")
    )
    small.commit()
    golden("site_stale_block", refused(small, tmp_path / "public", capsys))


def test_a_broken_link_is_refused(
    small: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write("docs/index.md", small.read("docs/index.md") + "\n[x](nowhere.md)\n")
    small.commit()
    said = refused(small, tmp_path / "public", capsys)
    assert said.startswith("error: nothing was published, since the strict build fails")
    assert "nowhere.md" in said


def test_a_folder_with_something_else_is_refused(
    small: MadeUpBook, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    assert (
        cli.main(["--root", str(small.root), "site", "publish", "--to", str(tmp_path / "mine")])
        == 2
    )
    golden("site_folder_in_use", capsys.readouterr().err)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_build_fails_on_a_broken_link_and_leaves_nothing(
    small: MadeUpBook, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write("docs/index.md", "# Small\n\n[x](nowhere.md)\n")
    assert cli.main(["--root", str(small.root), "site", "build"]) == 1
    assert "nowhere.md" in capsys.readouterr().out
    assert not (small.root / "site").exists()
    assert not [path for path in small.root.iterdir() if path.name.startswith(".site")]


def test_the_same_site_makes_the_same_zip(small: MadeUpBook, tmp_path: Path) -> None:
    site.archive(small.root, tmp_path / "a.zip", "abc")
    site.archive(small.root, tmp_path / "b.zip", "abc")
    with zipfile.ZipFile(tmp_path / "a.zip") as a, zipfile.ZipFile(tmp_path / "b.zip") as b:
        assert a.namelist() == b.namelist()


def test_wrong_use_is_one_sentence(small: MadeUpBook, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--root", str(small.root), "site", "publish"]) == 2
    assert cli.main(["--root", str(small.root), "site", "build", "--to", "x"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "error: publish needs --to DIR or --to BRANCH.",
        "error: --to goes with publish, not with build.",
    ]


def test_the_menu_lists_every_chapter_that_has_a_page_under_its_planned_title() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs" / "chapters").glob("??-*.md")):
        if page.name.count(".") > 1:
            continue  # a translation
        planned = plan.load().get(int(page.name[:2]))
        assert planned is not None and page.stem == planned.name
        entry = f"- {planned.number:02d} {planned.title}: chapters/{page.name}"
        assert entry in settings, f"mkdocs.yml lacks: {entry}"
