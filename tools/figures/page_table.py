"""The page table, the token pool and the KV pool."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Left: the token pool and the page table. In both, a row is a request and a column is a
position; the token pool holds token ids, the page table holds slots of the KV pool. Right: the
KV pool, six pages of four slots each. Request 0 has six tokens in slots 8 to 11 and 20 to 21,
that is pages 2 and 5; request 1 has three tokens in slots 0 to 2, page 0. The last page of each
request is partly empty."""

TOKENS = {0: (504, 17, 8, 291, 17, 63), 1: (77, 5, 902)}
SLOTS = {0: (8, 9, 10, 11, 20, 21), 1: (0, 1, 2)}
TONES = {0: "blue", 1: "amber"}
COLUMNS, CELL, PAGE = 8, 40, 4


def draw() -> Drawing:
    """Tables above each other on the left, pages on the right."""
    d = Drawing("Page table and pool", DESC, 720, 392)
    _table(d, 24, "Token pool: which token", TOKENS)
    _table(d, 198, "Page table: which slot holds its K and V", SLOTS)
    d.text(24, 376, "Row: request. Column: position. Blank: not used yet.", "s")
    _pool(d, 490, 24)
    return d


def _table(d: Drawing, y: float, title: str, rows: dict[int, tuple[int, ...]]) -> None:
    d.text(24, y + 14, title, "b")
    for column in range(COLUMNS):
        d.text(76 + column * CELL + CELL / 2, y + 38, str(column), "s", "middle")
    for row in range(3):
        values = rows.get(row, ())
        cells: list[object] = [*values, *[""] * (COLUMNS - len(values))]
        tones = [TONES.get(row, "plain")] * len(values) + ["plain"] * (COLUMNS - len(values))
        top = y + 46 + row * 34
        d.text(34, top + 21, f"req {row}" if row < 2 else "free", "s")
        d.cells((76, top), cells, tones, (CELL, 30))


def _pool(d: Drawing, x: float, y: float) -> None:
    owner = {slot: TONES[row] for row, slots in SLOTS.items() for slot in slots}
    d.text(x, y + 14, "KV pool: page_size = 4", "b")
    d.arrow((404, 260), (446, 260), (446, y + 160), (x - 8, y + 160))
    for page in range(6):
        top = y + 34 + page * 50
        slots = list(range(page * PAGE, page * PAGE + PAGE))
        d.text(x, top + 20, f"page {page}", "s")
        d.cells((x + 54, top), slots, [owner.get(slot, "plain") for slot in slots], (CELL, 32))
    d.text(x, y + 352, "slot = page × 4 + offset", "s")
