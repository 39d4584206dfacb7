"""How three requests lie flat in one batch."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """A prefill batch of three requests. Request A has two cached tokens and extends by
three, B has none cached and extends by two, C has four cached and extends by one. The batch has
six rows: positions 2, 3, 4 for A, 0, 1 for B and 4 for C. out_loc gives the slot where each row
writes its K and V. cu_seqlens_q is 0, 3, 5, 6 and cu_seqlens_k is 0, 5, 7, 12: where each
request begins among the queries and among the keys. Rows 2, 4 and 5, the last of each request,
give the logits."""

ROWS = ("A", "A", "A", "B", "B", "C")
TONES = {"A": "blue", "B": "green", "C": "amber"}
REQUESTS = (("A", 2, 3), ("B", 0, 2), ("C", 4, 1))
CELL = 58


def draw() -> Drawing:
    """Requests at the top, the flat tensors below them."""
    d = Drawing("Metadata of a batch", DESC, 720, 440)
    x = 24.0
    for name, cached, extend in REQUESTS:
        total = cached + extend
        d.text(x, 32, f"{name}: cached {cached}, extend {extend}", "b")
        tones = ["plain"] * cached + [TONES[name]] * extend
        d.cells((x, 44), list(range(total)), tones, (34, 28))
        x += 240
    d.text(24, 92, "Gray: in the pool already. Colored: computed now.", "s")
    tones = [TONES[name] for name in ROWS]
    flat: tuple[tuple[str, list[object]], ...] = (
        ("input_ids", ["a2", "a3", "a4", "b0", "b1", "c4"]),
        ("positions", [2, 3, 4, 0, 1, 4]),
        ("out_loc", [10, 11, 20, 4, 5, 33]),
    )
    for i, (name, cells) in enumerate(flat):
        y = 120 + i * 46
        d.text(24, y + 20, name, "m")
        d.cells((160, y), cells, tones, (CELL, 32))
    _boundaries(d, 282, "cu_seqlens_q", [0, 3, 5, 6], "rows of each request's queries")
    _boundaries(d, 336, "cu_seqlens_k", [0, 5, 7, 12], "the same for keys, cached ones included")
    d.text(24, 412, "logits from", "m")
    d.cells((160, 390), [2, 4, 5], ["blue", "green", "amber"], (CELL, 32))
    d.text(350, 411, "the last row of each request", "s")
    return d


def _boundaries(d: Drawing, y: float, name: str, values: list[int], note: str) -> None:
    d.text(24, y + 20, name, "m")
    d.cells((160, y), values, "plain", (CELL, 32))
    d.text(410, y + 20, note, "s")
