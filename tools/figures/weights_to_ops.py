"""Which tensors of a checkpoint become which ops."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Names in a safetensors file on the left, ops on the right. q_proj, k_proj and v_proj
are joined row by row into qkv_proj; gate_proj and up_proj into gate_up_proj; o_proj, down_proj,
the norms and embed_tokens keep their names. With a tied head, lm_head uses the tensor of
embed_tokens."""

LEFT, RIGHT = 24, 440
KEPT = (
    (24, "embed_tokens", "embed_tokens", "green"),
    (230, "self_attn.o_proj", "self_attn.o_proj", "plain"),
    (390, "mlp.down_proj", "mlp.down_proj", "plain"),
    (434, "input_layernorm ...", "input_layernorm ...", "plain"),
)
MERGED = (
    (92, ("q_proj", "k_proj", "v_proj"), "self_attn.qkv_proj", "blue"),
    (298, ("gate_proj", "up_proj"), "mlp.gate_up_proj", "amber"),
)


def draw() -> Drawing:
    """Tensors on the left, ops on the right, in the order of a layer."""
    d = Drawing("From weights to ops", DESC, 720, 510)
    for y, name, op, tone in KEPT:
        d.box((LEFT, y), (210, 34), [(name, "m")], tone, 4)
        d.box((RIGHT, y), (256, 34), [(op, "m")], tone, 4)
        d.arrow((LEFT + 210, y + 17), (RIGHT - 2, y + 17))
    for y, parts, op, tone in MERGED:
        height = 40 * len(parts) - 6
        for i, part in enumerate(parts):
            d.box((LEFT, y + 40 * i), (210, 34), [(part, "m")], tone, 4)
            d.line((LEFT + 210, y + 40 * i + 17), (300, y + 40 * i + 17))
        d.line((300, y + 17), (300, y + height - 17))
        d.arrow((300, y + height / 2), (RIGHT - 2, y + height / 2))
        d.text(372, y + height / 2 - 7, "torch.cat", "m", "middle")
        note = f"one product instead of {len(parts)}"
        d.box((RIGHT, y), (256, height), [(op, "m"), (note, "s")], tone, 4)
    d.box((RIGHT, 64), (256, 22), [("lm_head, when tied: same tensor", "s")], "green", 4)
    d.text(LEFT, 496, "safetensors, one tensor at a time", "s")
    d.text(RIGHT, 496, "ops of the model", "s")
    return d
