"""Each chapter's page leads to what a reader who writes it needs: commands, hints, exercise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from test_pages import DESK, ROOT, opened

from steplib.book import Book
from steplib.exercises.exercise import of_chapter

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from steplib.book import Chapter

CHAPTERS = Book.load(ROOT).chapters


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_chapter_leads_to_its_commands(browser: Browser, address: str, chapter: Chapter) -> None:
    number, exercises = f"{chapter.number:02d}", of_chapter(chapter)
    place = f"chapters/{chapter.name}"
    with opened(browser, address, place, "light", DESK) as (tab, _):
        shown = "\n".join(tab.locator("article pre").all_inner_texts())
        for command in (f"start {number} --into", f"check {number} --mine", f"hint {number}"):
            assert f"tools/steps.py {command}" in shown
        for exercise in exercises:
            assert f"exercise check {exercise.id} --mine" in shown
            assert tab.locator("h2#exercise").count() == 1
        if exercises:
            tab.locator("article").get_by_role("link", name="The exercise", exact=True).click()
            assert tab.url.endswith("#exercise")
        tab.locator("article").get_by_role("link", name="hints", exact=True).first.click()
        tab.wait_for_url("**/write-it-yourself/#hints")
        assert tab.locator("h2#hints").is_visible()
