"""What the engine owns, the order in which it is made, and one call of forward_batch."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Left: a batch with its reqs, input_ids, positions, out_loc and attn_metadata, and the
sampling parameters that the sampler has prepared. Middle: the engine, whose parts are made in this
order: 2 the context, 4 the model, on the meta device, 5 its weights, 6 the number of pages from the
memory that is left, 8 the KV pool, 9 the page table, 10 the attention backend, 11 the sampler. The
batch goes through the model, which uses pool, page table and backend by way of the context, and the
logits go to the sampler. Right: the output with next_tokens_gpu, next_tokens_cpu and
copy_done_event."""

LEFT, MIDDLE, RIGHT = 24, 212, 552


def draw() -> Drawing:
    """Input, engine and output, left to right."""
    d = Drawing("The engine's parts", DESC, 720, 372)
    _input(d)
    d.frame((MIDDLE, 24), (292, 310), "Engine")
    d.box((MIDDLE + 16, 62), (120, 66), [("4 model", "b"), ("5 its weights", "s")], "green")
    d.box((MIDDLE + 156, 62), (120, 66), [("11 sampler", "b"), ("(requests,)", "s")], "violet")
    d.arrow((MIDDLE + 136, 95), (MIDDLE + 154, 95))
    d.frame((MIDDLE + 16, 154), (260, 126), "2 context")
    _context(d)
    d.arrow((MIDDLE + 76, 128), (MIDDLE + 76, 152))
    d.text(MIDDLE + 16, 308, "6 num_pages: from the memory", "s")
    d.text(MIDDLE + 16, 324, "that the weights have left", "s")
    d.arrow((MIDDLE + 276, 95), (RIGHT - 2, 95))
    d.box((RIGHT, 62), (144, 34), [("next_tokens_gpu", "m")], "amber", 4)
    d.box((RIGHT, 100), (144, 34), [("next_tokens_cpu", "m")], "amber", 4)
    d.box((RIGHT, 138), (144, 34), [("copy_done_event", "m")], "amber", 4)
    d.text(RIGHT, 46, "ForwardOutput", "b")
    d.text(24, 358, "Numbers: steps of the constructor, as in the table below.", "s")
    return d


def _input(d: Drawing) -> None:
    d.text(LEFT, 46, "Batch", "b")
    for i, name in enumerate(("input_ids", "positions", "out_loc", "attn_metadata", "reqs")):
        d.box((LEFT, 62 + i * 38), (130, 34), [(name, "m")], "blue", 4)
    d.text(LEFT, 282, "from the sampler", "s")
    d.box((LEFT, 290), (130, 34), [("sampling args", "m")], "violet", 4)
    d.arrow((LEFT + 130, 95), (MIDDLE + 14, 95))


def _context(d: Drawing) -> None:
    x = MIDDLE + 28
    d.box((x, 186), (112, 38), [("8 KV pool", "t")], "amber", 4)
    d.box((x + 124, 186), (112, 38), [("9 page table", "t")], "amber", 4)
    d.box((x, 232), (236, 38), [("10 attention backend", "t")], "plain", 4)
