"""The search, on a server and in the edition that is read from a disk."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def found(tab: Page, words: str) -> list[str]:
    """The addresses that the search gives for some words."""
    tab.locator(".md-search__input").click()
    tab.locator(".md-search__input").press_sequentially(words)
    tab.locator(".md-search-result__link").first.wait_for(state="attached", timeout=10_000)
    links = tab.locator(".md-search-result__link")
    return [str(url) for url in links.evaluate_all("all => all.map(link => link.href)")]


def test_search_finds_page_table(browser: Browser, address: str) -> None:
    tab = browser.new_page()
    tab.goto(address, wait_until="networkidle")
    results = found(tab, "page table")
    tab.close()
    assert any("glossary" in url for url in results), results
    assert any("kv-pool" in url for url in results), results


def test_offline_zip_works_from_a_disk(browser: Browser, built: Path, tmp_path: Path) -> None:
    from steplib import site

    file = tmp_path / "handbook.zip"
    site.archive(ROOT, file, commit="0123456789ab")
    with zipfile.ZipFile(file) as packed:
        packed.extractall(tmp_path / "out")
    home = tmp_path / "out" / "handbook" / "index.html"
    tab = browser.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on(
        "request", lambda r: None if r.url.startswith(("file:", "data:")) else wrong.append(r.url)
    )
    tab.goto(home.as_uri(), wait_until="networkidle")
    results = found(tab, "page table")
    tab.keyboard.press("Escape")
    tab.get_by_role("link", name="Architecture").first.click()
    tab.wait_for_url("**/architecture.html")
    title = tab.locator("article h1").inner_text()
    tab.close()
    assert any("glossary.html" in url for url in results), results
    assert title.startswith("Architecture")
    assert not wrong
