"""A small drawing surface that writes SVG: boxes, cells, text and arrows in a fixed palette.

A drawing brings its own panel and both palettes, so it is legible wherever it is shown: an image
follows the color scheme of the page around it, and where it can't, its ink still fits its panel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

Point = tuple[float, float]

SANS = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"

LIGHT = {
    "panel": "#ffffff", "ink": "#1f2430", "soft": "#5a6372", "edge": "#8a93a2",
    "plain": "#f1f3f6", "blue": "#d8e6ff", "green": "#d3efdc", "amber": "#fdeac2",
    "violet": "#e7defa", "red": "#fadcd9", "deep": "#2b5fc1",
}  # fmt: skip
DARK = {
    "panel": "#1d212b", "ink": "#e4e7ee", "soft": "#a3abba", "edge": "#707a8c",
    "plain": "#2a303d", "blue": "#1e3862", "green": "#1b3d27", "amber": "#493812",
    "violet": "#3b2e60", "red": "#572927", "deep": "#82aaff",
}  # fmt: skip
TONES = ("plain", "blue", "green", "amber", "violet", "red")

SIZES = {"t": 14, "b": 14, "s": 12, "m": 12.5, "h": 15}
"""Font size in px of each kind of text: text, bold, small, mono, heading."""

_ADVANCE = {"t": 0.56, "b": 0.6, "s": 0.56, "m": 0.61, "h": 0.6}
"""Mean width of a character, in font sizes; wide enough for the widest font that may be used."""


@dataclass
class Drawing:
    """One figure. Coordinates are px from the top left; `desc` becomes the alternative text."""

    title: str
    desc: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, kind: str = "t", anchor: str = "start") -> None:
        """A line of text whose baseline is at y. anchor: start, middle or end."""
        span = text_width(text, kind)
        left = {"start": x, "middle": x - span / 2, "end": x - span}[anchor]
        assert left >= 0 and left + span <= self.width, f"{self.title}: {text!r} leaves the panel"
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        at = f'class="{kind}" x="{_n(x)}" y="{_n(y)}"{place}'
        self.parts.append(f"<text {at}>{escape(text, quote=False)}</text>")

    def box(
        self,
        at: Point,
        size: Point,
        lines: Sequence[str | tuple[str, str]],
        tone: str = "plain",
        radius: int = 8,
    ) -> None:
        """A rounded box with centered lines, each a text or (text, kind)."""
        (x, y), (width, height) = at, size
        self._rect(x, y, width, height, tone, radius)
        items = [(line, "t") if isinstance(line, str) else line for line in lines]
        steps = [SIZES[kind] * 1.45 for _, kind in items]
        baseline = y + (height - sum(steps)) / 2
        for (line, kind), step in zip(items, steps, strict=True):
            fits = text_width(line, kind) <= width - 6
            assert fits, f"{self.title}: {line!r} is wider than its box"
            self.text(x + width / 2, baseline + step * 0.73, line, kind, "middle")
            baseline += step

    def frame(self, at: Point, size: Point, label: str = "", kind: str = "b") -> None:
        """An outline with a label, if there is one, in its top left corner."""
        self._rect(*at, *size, "none", 10)
        if label:
            self.text(at[0] + 12, at[1] + 21, label, kind)

    def cells(
        self,
        at: Point,
        labels: Sequence[object],
        tones: Sequence[str] | str = "plain",
        size: Point = (34, 28),
        kind: str = "m",
    ) -> None:
        """A row of cells that touch; an empty label leaves its cell blank."""
        each = [tones] * len(labels) if isinstance(tones, str) else tones
        for i, (label, tone) in enumerate(zip(labels, each, strict=True)):
            x = at[0] + i * size[0]
            self._rect(x, at[1], size[0], size[1], tone, 0)
            if str(label):
                self.text(x + size[0] / 2, at[1] + size[1] / 2 + 4.5, str(label), kind, "middle")

    def arrow(self, *points: Point, label: str = "", kind: str = "s", dashed: bool = False) -> None:
        """A path with a head at its end; the label stands above the middle of its first part."""
        self._path(points, "arrow" + (" dashed" if dashed else ""), ' marker-end="url(#head)"')
        if label:
            (x1, y1), (x2, y2) = points[0], points[1]
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 6, label, kind, "middle")

    def line(self, *points: Point, dashed: bool = False) -> None:
        """A path without a head."""
        self._path(points, "line" + (" dashed" if dashed else ""), "")

    def bar(self, at: Point, size: Point, tone: str) -> None:
        """A plain filled rectangle."""
        self._rect(*at, *size, tone, 2)

    def svg(self) -> str:
        """The whole file."""
        size = (
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        )
        head = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(self.title, quote=False)}</title>',
            f'<desc id="d">{escape(" ".join(self.desc.split()), quote=False)}</desc>',
            f"<style>{_css()}</style>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            'markerHeight="8" orient="auto"><path class="head" d="M0 1L10 5L0 9z"/></marker>'
            "</defs>",
            f'<rect class="panel" width="{self.width}" height="{self.height}" rx="10"/>',
        ]
        return "\n".join([*head, *self.parts, "</svg>", ""])

    def _rect(
        self, x: float, y: float, width: float, height: float, tone: str, radius: int
    ) -> None:
        inside = min(x, y) >= 0 and x + width <= self.width and y + height <= self.height
        assert inside, f"{self.title}: a box at {x}, {y} leaves the panel"
        self.parts.append(
            f'<rect class="{tone}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" '
            f'height="{_n(height)}" rx="{radius}"/>'
        )

    def _path(self, points: Iterable[Point], style: str, rest: str) -> None:
        steps = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        self.parts.append(f'<path class="{style}" d="M{steps}"{rest}/>')


def text_width(text: str, kind: str) -> float:
    """About how wide a line is, in px."""
    return len(text) * SIZES[kind] * _ADVANCE[kind]


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _css() -> str:
    light, dark = (
        "".join(f"--{name}:{color};" for name, color in palette.items())
        for palette in (LIGHT, DARK)
    )
    fills = "".join(f".{tone}{{fill:var(--{tone});stroke:var(--edge)}}" for tone in TONES)
    fonts = "".join(f".{kind}{{font-size:{size}px}}" for kind, size in SIZES.items())
    return (
        f"svg{{{light}color-scheme:light dark}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
        f"text{{font-family:{SANS};fill:var(--ink)}}{fonts}"
        f".m{{font-family:{MONO}}}.b,.h{{font-weight:600}}.s{{fill:var(--soft)}}"
        f".panel{{fill:var(--panel)}}.none{{fill:none;stroke:var(--edge);stroke-dasharray:5 4}}"
        f"{fills}.deep{{fill:var(--deep)}}.line,.arrow{{fill:none;stroke:var(--edge);stroke-width:1.5}}"
        f".arrow{{stroke:var(--soft)}}.dashed{{stroke-dasharray:5 4}}.head{{fill:var(--soft)}}"
    )
