"""The pages that grade writes, in a browser: both themes, desk and phone, nothing cut off."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tool"))

from made_up_grading import MADE_AT, class_report, item, submission  # noqa: E402

from steplib.grading.formats.page import as_class_page, as_student_page  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONG = "02.tests.without_a_rope_base_there_is_an_error_or_transformers_own_default"
TOO_WIDE = """
() => [document.documentElement, ...document.querySelectorAll(".scroll")]
    .map(box => box.scrollWidth - box.clientWidth)
"""


def pages() -> dict[str, str]:
    """Of a class of two, one of whom has everything to do still."""
    missing = submission("eve", [item(LONG, 0, 1.25, verdict="missing"), item("02.main", 0, 10)])
    failed = submission("bob", [item(LONG, 0, 1.25), item("02.main", 10, 10)])
    return {
        "class": as_class_page(class_report(missing, failed)),
        "student": as_student_page(failed, MADE_AT),
    }


@pytest.mark.parametrize("page", pages())
@pytest.mark.parametrize("width", [1200, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_fits_its_screen(browser: Browser, page: str, width: int, scheme: str) -> None:
    context = browser.new_context(
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport={"width": width, "height": 900},
    )
    tab = context.new_page()
    tab.set_content(pages()[page])
    assert max(tab.evaluate(TOO_WIDE)) <= 0
    back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 29)"}[scheme]
    context.close()
