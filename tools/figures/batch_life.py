"""What happens to a batch from its making to its tokens."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """The life of a batch in seven steps. The scheduler chooses requests, allocates slots
and fills input_ids, positions and out_loc. The attention backend prepares the metadata. The
engine runs the model: each layer stores K and V at out_loc and attends through the page table.
The last row of each request gives logits; the sampler draws one token per request. The token
goes into the token pool and each request's lengths advance; those that are not finished come
back as a decode batch with one row each."""

WIDTH, HEIGHT = 206, 92
STEPS = (
    ((24, 24), "1  choose requests", ("reqs, phase:", "prefill or decode"), "amber"),
    ((257, 24), "2  place them", ("slots from the pool,", "into the page table"), "amber"),
    ((490, 24), "3  fill the inputs", ("input_ids, positions,", "out_loc"), "amber"),
    ((490, 170), "4  prepare metadata", ("attention backend:", "cu_seqlens, page table"), "blue"),
    ((257, 170), "5  run the model", ("each layer: store K, V,", "attend, MLP"), "violet"),
    ((24, 170), "6  sample", ("last row of each request:", "logits to one token"), "violet"),
    ((24, 316), "7  advance", ("token into the token pool,", "cached_len, device_len"), "amber"),
)


def draw() -> Drawing:
    """A snake of boxes, and the way back for the next step."""
    d = Drawing("The life of a batch", DESC, 720, 432)
    for at, title, lines, tone in STEPS:
        d.box(at, (WIDTH, HEIGHT), [(title, "b"), *((line, "s") for line in lines)], tone)
    d.arrow((230, 70), (255, 70))
    d.arrow((463, 70), (488, 70))
    d.arrow((593, 116), (593, 168))
    d.arrow((490, 216), (465, 216))
    d.arrow((257, 216), (232, 216))
    d.arrow((127, 262), (127, 314))
    d.arrow((230, 362), (705, 362), (705, 12), (127, 12), (127, 22))
    d.text(440, 354, "not finished: decode, one row each", "s", "middle")
    d.box((257, 384), (206, 34), [("finished: reply, free slots", "s")], "green")
    d.line((127, 408), (127, 418), (240, 418), (240, 401))
    d.arrow((240, 401), (255, 401))
    return d
