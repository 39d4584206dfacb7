"""How a tree of ops gives the names of a state dict."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """An op tree. The model holds embed_tokens and a list of layers; layer 0 holds
self_attn, which holds qkv_proj, which holds the tensor weight. Reading the attribute names from
the root to the tensor gives the name model.layers.0.self_attn.qkv_proj.weight. Attributes with
a leading underscore are not part of the state dict."""


def draw() -> Drawing:
    """Boxes from the root to a tensor, and the name that they spell."""
    d = Drawing("From ops to names", DESC, 720, 330)
    d.text(24, 34, "An op's attributes are its parts; no registration, no nn.Module", "b")
    chain = (
        ("model", "BaseOP", "blue"),
        ("layers", "OPList", "blue"),
        ("0", "BaseOP", "blue"),
        ("self_attn", "BaseOP", "blue"),
        ("qkv_proj", "Linear", "green"),
        ("weight", "tensor", "amber"),
    )
    x = 24.0
    for i, (name, kind, tone) in enumerate(chain):
        width = 92.0
        d.box((x, 70), (width, 56), [(name, "m"), (kind, "s")], tone)
        if i + 1 < len(chain):
            d.arrow((x + width, 98), (x + width + 22, 98))
        x += width + 24
    d.box((24, 190), (560, 44), [("model.layers.0.self_attn.qkv_proj.weight", "m")], "amber")
    d.text(24, 176, "The names on the way, joined by dots, are the key in the state dict:", "t")
    for at in (70, 186, 302, 418, 534):
        d.line((at, 126), (at, 150), dashed=True)
    d.line((650, 126), (650, 212))
    d.arrow((650, 212), (586, 212))
    d.box((24, 266), (150, 40), [("self._attn", "m")], "plain")
    d.text(190, 291, "A leading underscore: not part of the state dict.", "s")
    return d
