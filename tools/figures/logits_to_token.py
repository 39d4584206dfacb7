"""From a row of logits to one token."""

from __future__ import annotations

from math import exp

from figures.svg import Drawing

DESC = """Six tokens and their probability after each stage. Softmax of the logits gives 49, 22,
16, 7, 4 and 1 percent. Temperature 0.7 sharpens them. Top-k 4 keeps the four best. Top-p 0.9
keeps the fewest best tokens that together reach 90 percent. What is left is scaled to one
again, and one token is drawn from it."""

LOGITS = (3.2, 2.4, 2.1, 1.3, 0.8, -0.4)
TEMPERATURE, TOP_K, TOP_P = 0.7, 4, 0.9
TALLEST, BASE = 130, 210


def draw() -> Drawing:
    """Four small bar charts, left to right."""
    d = Drawing("From logits to a token", DESC, 720, 290)
    hot = softmax([logit / TEMPERATURE for logit in LOGITS])
    few = scaled([p if i < TOP_K else 0.0 for i, p in enumerate(hot)])
    stages = (
        ("softmax", "temperature 1", softmax(list(LOGITS))),
        ("temperature", f"logits / {TEMPERATURE}", hot),
        ("top-k", f"the {TOP_K} best", few),
        ("top-p", f"fewest that reach {TOP_P}", scaled(nucleus(few))),
    )
    for i, (title, note, chances) in enumerate(stages):
        x = 24 + i * 174
        d.text(x, 30, title, "b")
        d.text(x, 48, note, "s")
        _chart(d, x, chances)
        if i:
            d.arrow((x - 30, 130), (x - 6, 130))
    d.text(
        24,
        276,
        "Tokens 1 to 6, best first, in percent. Temperature 0 skips all of this: token 1 wins.",
        "s",
    )
    return d


def _chart(d: Drawing, x: float, chances: list[float]) -> None:
    for i, chance in enumerate(chances):
        left = x + i * 23
        if chance:
            height = chance * TALLEST / 0.75
            d.bar((left, BASE - height), (18, height), "blue")
            d.text(left + 9, BASE - height - 4, f"{100 * chance:.0f}", "s", "middle")
        else:
            d.line((left + 4, BASE - 12), (left + 14, BASE - 2))
            d.line((left + 14, BASE - 12), (left + 4, BASE - 2))
        d.text(left + 9, BASE + 16, str(i + 1), "s", "middle")
    d.line((x - 2, BASE), (x + 138, BASE))


def softmax(logits: list[float]) -> list[float]:
    """Probabilities of a row of logits."""
    return scaled([exp(logit) for logit in logits])


def scaled(chances: list[float]) -> list[float]:
    """The same, with sum 1."""
    return [chance / sum(chances) for chance in chances]


def nucleus(chances: list[float]) -> list[float]:
    """0 for each token before which TOP_P is already reached; chances are in falling order."""
    return [chance if sum(chances[:i]) < TOP_P else 0.0 for i, chance in enumerate(chances)]
