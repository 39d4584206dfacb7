"""Which keys the new tokens of a request see, behind a cached prefix."""

from __future__ import annotations

from collections.abc import Callable

from figures.svg import Drawing

DESC = """Three masks for one request with two cached and three new tokens: rows are the queries
at positions 2, 3 and 4, columns the keys at positions 0 to 4. Aligned at the top left, query 2 sees
key 0 only, query 3 keys 0 and 1, query 4 keys 0 to 2: wrong. Aligned at the bottom right, query 2
sees keys 0 to 2, query 3 keys 0 to 3, query 4 all five: right. With a window of 3, query 2 sees
keys 0 to 2, query 3 keys 1 to 3, query 4 keys 2 to 4."""

CACHED, TOTAL, WINDOW = 2, 5, 3
CELL = 34
MASKS: tuple[tuple[str, str, Callable[[int, int], bool]], ...] = (
    ("top left: wrong", "red", lambda q, k: k <= q - CACHED),
    ("bottom right: right", "blue", lambda q, k: k <= q),
    (f"right, window {WINDOW}", "green", lambda q, k: q - WINDOW < k <= q),
)


def draw() -> Drawing:
    """Three grids, left to right."""
    d = Drawing("Masks behind a cached prefix", DESC, 720, 230)
    for i, (title, tone, is_seen) in enumerate(MASKS):
        x = 56 + i * 232
        d.text(x, 30, title, "b")
        for key in range(TOTAL):
            d.text(x + key * CELL + CELL / 2, 58, str(key), "s", "middle")
        for row, query in enumerate(range(CACHED, TOTAL)):
            y = 66 + row * CELL
            seen = [is_seen(query, key) for key in range(TOTAL)]
            d.text(x - 10, y + 22, f"q{query}", "s", "end")
            d.cells(
                (x, y),
                ["•" if each else "" for each in seen],
                [tone if each else "plain" for each in seen],
                (CELL, CELL),
            )
        d.line((x, 178), (x + CACHED * CELL - 4, 178))
        d.text(x, 196, "cached", "s")
        d.line((x + CACHED * CELL, 178), (x + TOTAL * CELL, 178))
        d.text(x + CACHED * CELL, 196, "new", "s")
    d.text(24, 220, "Rows: queries of the new tokens. Columns: keys. Dot: seen.", "s")
    return d
