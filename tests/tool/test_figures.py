"""The figures: fresh, drawn alike each time, described, and inside their panels."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import diagrams  # noqa: E402
from figures.svg import DARK, LIGHT, Drawing  # noqa: E402
from minisgl import message  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


def test_committed_figures_are_fresh() -> None:
    assert diagrams.stale() == []


def test_a_changed_a_missing_and_a_strange_figure_are_named(tmp_path: Path) -> None:
    for name in diagrams.names()[1:]:
        (tmp_path / f"{name}.svg").write_text(diagrams.drawn(name), encoding="utf-8")
    (tmp_path / f"{diagrams.names()[1]}.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "mine.svg").touch()
    missing, changed, strange = diagrams.stale(tmp_path)
    assert missing == f"{diagrams.names()[0]}.svg is missing"
    assert changed == f"{diagrams.names()[1]}.svg is not what tools/figures draws"
    assert strange == "mine.svg has no module in tools/figures"


@pytest.mark.parametrize("name", diagrams.names())
def test_a_figure_is_sound(name: str) -> None:
    text = diagrams.drawn(name)
    assert text == diagrams.drawn(name)
    root = ElementTree.fromstring(text)
    assert root.findtext(f"{SVG}title")
    assert len(root.findtext(f"{SVG}desc") or "") > 80
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_every_kind_of_message_is_in_the_picture_of_the_processes() -> None:
    kinds = {
        name
        for name in message.__all__
        if dataclasses.is_dataclass(getattr(message, name)) and not name.startswith("Base")
    }
    assert len(kinds) >= 13
    root = ElementTree.fromstring(diagrams.drawn("processes"))
    words = set(" ".join(text.text or "" for text in root.iter(f"{SVG}text")).split())
    described = root.findtext(f"{SVG}desc") or ""
    for kind in sorted(kinds):
        assert kind in words or f"{kind}:" in words, f"{kind} is on no arrow"
        assert kind in described, f"{kind} is not in the description"


def test_text_that_leaves_its_panel_or_box_is_an_error() -> None:
    drawing = Drawing("Small", "A test.", 100, 100)
    with pytest.raises(AssertionError, match="leaves the panel"):
        drawing.text(60, 20, "much too long")
    with pytest.raises(AssertionError, match="wider than its box"):
        drawing.box((0, 0), (40, 40), ["much too long"])
    with pytest.raises(AssertionError, match="leaves the panel"):
        drawing.bar((90, 0), (20, 10), "blue")


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["panel", "plain", "blue", "green", "amber", "violet", "red"])
def test_ink_can_be_read_on_every_fill(palette: dict[str, str], ground: str) -> None:
    for ink in ("ink", "soft"):
        assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
