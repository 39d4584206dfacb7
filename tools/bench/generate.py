"""LLM.generate beside transformers: 16 requests of mixed lengths, half of them with one prefix.

    python tools/bench/generate.py [--threads N] [--rounds N] [--write]

Three ways take turns in one process: LLM.generate on all requests, transformers on one request
after the other, and transformers on all at once, padded. Useful tokens, those up to each request's
own limit, over wall time, prefill included; the medians count. LLM starts each round with an empty
cache, so that it computes the shared prefix too.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "steps"), str(ROOT / "tools")]

import torch  # noqa: E402

from bench import result  # noqa: E402
from bench.transformers_side import TransformersSide  # noqa: E402
from bench.turns import medians  # noqa: E402
from minisgl.core import SamplingParams  # noqa: E402
from minisgl.llm import LLM  # noqa: E402

COLUMNS = ["way", "tok/s", "seconds", "seconds / LLM.generate's", "equal answers"]
COUNT, PREFIX, SHORTEST, LONGEST, FEWEST, MOST = 16, 128, 16, 256, 32, 96
BUDGET = 512
"""Prompt tokens of one batch: few enough that later prompts find the prefix of earlier ones."""


class Task(NamedTuple):
    """One request: its prompt, and how many tokens it wants."""

    prompt: list[int]
    tokens: int


def draw_tasks(vocab_size: int) -> list[Task]:
    """Evenly spread lengths in random order; every second prompt begins with the prefix."""
    draw = random.Random(0)
    step = (LONGEST - SHORTEST) // (COUNT - 1)
    lengths = list(range(SHORTEST, LONGEST + 1, step))
    limits = [FEWEST + (MOST - FEWEST) * i // (COUNT - 1) for i in range(COUNT)]
    draw.shuffle(limits)
    prefix = [draw.randrange(vocab_size) for _ in range(PREFIX)]
    tasks = []
    for i, (length, limit) in enumerate(zip(lengths, limits, strict=True)):
        shared = prefix if i >= COUNT // 2 else []  # the longer half has room for the prefix
        own = [draw.randrange(vocab_size) for _ in range(length - len(shared))]
        tasks.append(Task(shared + own, limit))
    draw.shuffle(tasks)
    return tasks


class Ways:
    """The three ways. answers: for each way, each request's tokens of its last round."""

    def __init__(self, folder: str, tasks: list[Task], llm: LLM) -> None:
        self.tasks, self.llm = tasks, llm
        self.other = TransformersSide(folder)
        self.answers: dict[str, list[list[int]]] = {}

    def ours(self) -> None:
        """All requests through LLM.generate, from an empty cache."""
        self.llm._reset()
        params = [SamplingParams(max_tokens=t.tokens, ignore_eos=True) for t in self.tasks]
        out = self.llm.generate([t.prompt for t in self.tasks], params, use_tqdm=False)
        self.answers["ours"] = [list(map(int, answer["token_ids"])) for answer in out]

    def one_by_one(self) -> None:
        """Each request in a call of its own."""
        answers = [self.other.run([t.prompt], t.tokens)[0][0] for t in self.tasks]
        self.answers["one_by_one"] = answers

    def padded(self) -> None:
        """All requests in one batch, which runs as long as the longest answer."""
        most = max(t.tokens for t in self.tasks)
        answers, _ = self.other.run([t.prompt for t in self.tasks], most)
        self.answers["padded"] = [a[: t.tokens] for a, t in zip(answers, self.tasks, strict=True)]


def equal_tokens(ways: Ways, name: str) -> str:
    """In how many requests this way's tokens are those of LLM.generate."""
    pairs = list(zip(ways.answers["ours"], ways.answers[name], strict=True))
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--write", action="store_true", help="keep the result in tools/bench/results/"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    folder = str(ROOT / "models" / args.model)
    llm = LLM(folder, torch.float32, max_extend_tokens=BUDGET, max_running_req=COUNT)
    names = {"ours": "LLM.generate", "one_by_one": "one by one", "padded": "padded batch"}
    ways = Ways(folder, [Task([1] * 64, 4)] * 2, llm)
    calls = [getattr(ways, name) for name in names]
    medians(calls, rounds=1)  # the first calls of a process are slower
    ways.tasks = draw_tasks(llm.config.model_config.vocab_size)
    seconds = medians(calls, args.rounds, skipped=0)
    useful = sum(t.tokens for t in ways.tasks)
    rows: list[list[result.Cell]] = [
        [label, useful / spent, spent, spent / seconds[0], equal_tokens(ways, name)]
        for (name, label), spent in zip(names.items(), seconds, strict=True)
    ]
    rows[0][4] = ""
    result.show(COLUMNS, rows)
    if args.write:
        options = f"--threads {args.threads} --rounds {args.rounds}"
        command = f"python tools/bench/generate.py {options} --write"
        print(f"written to {result.write('generate', command, COLUMNS, rows)}")


if __name__ == "__main__":
    main()
