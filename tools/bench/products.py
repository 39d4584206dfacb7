"""The linear products of one forward pass: apart, merged, and merged and packed.

    python tools/bench/products.py [--threads N] [--rounds N] [--write]

The shapes are SmolLM2-135M's, all 30 layers and the head, so that no cache holds the weights.
The three ways run in turns; the medians count.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from bench.turns import medians  # noqa: E402
from minisgl.layers.linear import linear, pack_weight  # noqa: E402

COLUMNS = ["Tokens", "Apart (ms)", "Merged (ms)", "Merged, packed (ms)", "Packed (GB/s)"]
LAYERS, VOCAB, HIDDEN, INNER = 30, 49152, 576, 1536
OF_LAYER = (
    (HIDDEN, (576, 192, 192)),
    (576, (HIDDEN,)),
    (HIDDEN, (INNER, INNER)),
    (INNER, (HIDDEN,)),
)
"""(inputs, outputs of each projection): q, k, v; o; gate, up; down."""


def draw_weights() -> list[list[torch.Tensor]]:
    """Every matrix of the model, those with the same input in one list."""
    shapes = [*OF_LAYER * LAYERS, (HIDDEN, (VOCAB,))]
    return [[torch.randn(rows, inputs) for rows in parts] for inputs, parts in shapes]


def multiply(inputs: dict[int, torch.Tensor], weights: list[torch.Tensor]) -> None:
    """One product for each weight."""
    for weight in weights:
        linear(inputs[weight.shape[1]], weight)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--write", action="store_true", help="keep the result in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    groups = draw_weights()
    merged = [torch.cat(group) for group in groups]
    layouts = ([w for group in groups for w in group], merged, [pack_weight(w) for w in merged])
    gigabytes = sum(weight.numel() for weight in merged) * 4 / 1e9
    rows: list[list[result.Cell]] = []
    for tokens in (1, 8, 64):
        inputs = {size: torch.randn(tokens, size) for size in (HIDDEN, INNER)}
        times = medians([partial(multiply, inputs, weights) for weights in layouts], args.rounds)
        rows.append([tokens, *(seconds * 1000 for seconds in times), gigabytes / times[-1]])
    result.show(COLUMNS, rows)
    if args.write:
        command = f"python tools/bench/products.py --threads {args.threads} --write"
        print(f"written to {result.write('chapter02-products', command, COLUMNS, rows)}")


if __name__ == "__main__":
    main()
