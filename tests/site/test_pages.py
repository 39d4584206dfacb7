"""Every page in a real browser: both themes, a desk and a phone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
SHOTS = os.environ.get("SCREENSHOTS")  # a folder, to look at what the tests saw

Scheme = Literal["light", "dark"]
PHONE, DESK = 400, 1280


def url_of(page: str) -> str:
    """Where mkdocs puts a page, below the site's address."""
    return "" if page == "index" else f"{page}/"


@contextmanager
def opened(
    browser: Browser, address: str, page: str, scheme: Scheme, width: int
) -> Iterator[tuple[Page, list[str]]]:
    """The page, and a list that fills with everything that goes wrong on it."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, is_mobile=width == PHONE
    )
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("requestfailed", lambda request: wrong.append(f"failed: {request.url}"))
    tab.on("request", lambda request: _note_stranger(request.url, address, wrong))
    tab.on("response", lambda got: wrong.append(f"{got.status}: {got.url}") if not got.ok else None)
    with tab.expect_response("**/search_index.json"):  # the last thing that a page asks for
        tab.goto(address + url_of(page), wait_until="load")
    yield tab, wrong
    context.close()


def _note_stranger(url: str, address: str, wrong: list[str]) -> None:
    if not url.startswith((address, "data:", "blob:")):
        wrong.append(f"a request to another host: {url}")


@pytest.mark.parametrize("page", PAGES)
def test_page_is_sound_in_both_themes_on_desk_and_phone(
    browser: Browser, address: str, page: str
) -> None:
    for scheme, width in (("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)):
        with opened(browser, address, page, scheme, width) as (tab, wrong):
            used = tab.evaluate("document.body.dataset.mdColorScheme")
            over = tab.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            _keep_screenshot(tab, page, scheme, width)
            _check_content(tab, page)
            assert not wrong, (scheme, width, wrong)
            assert used == {"light": "default", "dark": "slate"}[scheme]
            assert over <= 0, f"{scheme}, {width} px: the page is {over} px too wide"


def _check_content(tab: Page, page: str) -> None:
    """One heading, described figures, and two ways to have a mistake mended."""
    assert tab.locator("article h1").count() == 1
    images = tab.locator("article img").evaluate_all("all => all.map(img => img.alt)")
    assert all(len(text) > 40 for text in images), images
    edit = tab.get_by_role("link", name="Edit this page").last.get_attribute("href") or ""
    assert edit.endswith(f"/edit/main/docs/{page}.md")
    issue = tab.get_by_role("link", name="Report an issue").get_attribute("href") or ""
    assert "/issues/new?title=" in issue


def _keep_screenshot(tab: Page, page: str, scheme: str, width: int) -> None:
    if SHOTS:
        name = f"{page.replace('/', '_')}-{scheme}-{width}.png"
        tab.screenshot(path=str(Path(SHOTS) / name))


def test_switch_of_theme_is_kept_and_figures_follow_it(browser: Browser, address: str) -> None:
    with opened(browser, address, "architecture", "light", DESK) as (tab, wrong):
        light = _corner_of_figure(tab)
        tab.get_by_title("Switch to dark mode").click()
        assert tab.evaluate("document.body.dataset.mdColorScheme") == "slate"
        tab.wait_for_timeout(300)
        dark = _corner_of_figure(tab)
        tab.reload(wait_until="networkidle")
        assert tab.evaluate("document.body.dataset.mdColorScheme") == "slate"
        assert not wrong
    assert light > 240 and dark < 60, (light, dark)


def _corner_of_figure(tab: Page) -> float:
    """Brightness of a figure's panel as it is shown, 0 to 255."""
    import base64

    shot = tab.locator("article img").first.screenshot()
    read = """async (data) => {
        const image = new Image()
        image.src = "data:image/png;base64," + data
        await image.decode()
        const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d")
        canvas.drawImage(image, 0, 0)
        const [r, g, b] = canvas.getImageData(image.width / 2, 8, 1, 1).data
        return (r + g + b) / 3
    }"""
    return float(tab.evaluate(read, base64.b64encode(shot).decode()))


def test_code_has_a_copy_button_and_folds(browser: Browser, address: str) -> None:
    with opened(browser, address, "chapters/00-minimal-engine", "light", DESK) as (tab, _):
        tab.locator("button.md-code__button, button.md-clipboard").first.wait_for(state="attached")
        folded = tab.locator("details.example")
        for at in range(folded.count()):
            assert folded.nth(at).get_attribute("open") is None


def test_footer_names_the_commit(browser: Browser, address: str) -> None:
    with opened(browser, address, "index", "light", DESK) as (tab, _):
        assert tab.locator(".handbook-commit").inner_text() == "0123456789ab"
