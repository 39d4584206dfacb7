"""Shows that parity on a checkpoint means something.

A model that repeats one token for ever, or whose output does not depend on its prompt, agrees with
any engine. So a tiny checkpoint must give varied tokens, and other ones after another prompt.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from steplib.checkpoints.tokenizer import SPECIAL, VOCABULARY
from steplib.errors import UserError

TOKENS = 40
PROMPTS = 6
LENGTHS = (8, 40)
LEAST_DISTINCT = 30
LEAST_CHANGED = 0.9


@dataclass(frozen=True)
class Liveliness:
    """The worst prompt's distinct tokens of TOKENS, and share of outputs that one token changes."""

    distinct: int
    changed: float

    def __str__(self) -> str:
        return f"{self.distinct} distinct tokens in {TOKENS}, {self.changed:.0%} change with one"


def check_liveliness(name: str, folder: Path) -> Liveliness:
    """Measure with transformers; UserError when parity on this checkpoint would be vacuous."""
    found = measure(folder)
    if found.distinct < LEAST_DISTINCT or found.changed < LEAST_CHANGED:
        raise UserError(
            f"{name} is not lively enough for parity ({found}); at least {LEAST_DISTINCT} and "
            f"{LEAST_CHANGED:.0%} are needed: choose another seed or gain in checkpoints.toml."
        )
    return found


def measure(folder: Path) -> Liveliness:
    """The worst over PROMPTS random prompts of each length; their second token is changed."""
    distinct, changed = TOKENS, 1.0
    for length in LENGTHS:
        draw = random.Random(length)
        top = VOCABULARY - len(SPECIAL)
        prompts = [[draw.randrange(top) for _ in range(length)] for _ in range(PROMPTS)]
        others = [[p[0], (p[1] + 1) % top, *p[2:]] for p in prompts]
        outputs = greedy(folder, prompts + others)
        for before, after in zip(outputs[:PROMPTS], outputs[PROMPTS:], strict=True):
            distinct = min(distinct, len(set(before)))
            differ = sum(a != b for a, b in zip(before, after, strict=True))
            changed = min(changed, differ / TOKENS)
    return Liveliness(distinct, changed)


def greedy(folder: Path, prompts: list[list[int]], count: int = TOKENS) -> list[list[int]]:
    """`count` tokens after each prompt (all of one length), by transformers in float32."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    torch.set_num_threads(1)  # products this small only wait for each other's threads
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    # A fresh configuration: the model's own may carry a penalty or an end id.
    plan = GenerationConfig(do_sample=False, max_new_tokens=count, min_new_tokens=count)
    ids = torch.tensor(prompts)
    with torch.inference_mode():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=plan)
    return [[int(token) for token in row[len(prompts[0]) :]] for row in out]
