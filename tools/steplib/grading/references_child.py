"""transformers in float32 on the prompts of a class; prompts of one length share a batch.

Reads a JSON list of [model, max_tokens, [{prompts, out}, ...]] on stdin; writes one .npz a set.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from steplib.oracle_child import _load, _noise, _save  # noqa: E402

_BATCH = 64


def main() -> None:
    """Do every job of stdin."""
    for model_path, max_tokens, sets in json.load(sys.stdin):
        model = _load(model_path)
        prompts = [tuple(prompt) for one in sets for prompt in one["prompts"]]
        answers = _answers(model, list(dict.fromkeys(prompts)), max_tokens)
        for one in sets:
            own = [answers[tuple(prompt)] for prompt in one["prompts"]]
            tokens, logits = [a[0] for a in own], [a[1] for a in own]
            answer = {
                "tokens": np.array(tokens),
                "noise": _noise(model, one["prompts"], tokens, logits),
                "std": float(np.mean([rows.std(axis=-1).mean() for rows in logits])),
                **{f"logits_{i}": rows for i, rows in enumerate(logits)},
            }
            _save(Path(one["out"]), answer)


def _answers(
    model: Any, prompts: list[tuple[int, ...]], max_tokens: int
) -> dict[tuple[int, ...], tuple[list[int], np.ndarray]]:
    """For each prompt its greedy tokens and their logits."""
    found: dict[tuple[int, ...], tuple[list[int], np.ndarray]] = {}
    for length in sorted({len(prompt) for prompt in prompts}):
        same = [prompt for prompt in prompts if len(prompt) == length]
        for start in range(0, len(same), _BATCH):
            batch = same[start : start + _BATCH]
            found.update(zip(batch, _greedy(model, batch, max_tokens), strict=True))
    return found


@torch.inference_mode()
def _greedy(
    model: Any, prompts: list[tuple[int, ...]], max_tokens: int
) -> list[tuple[list[int], np.ndarray]]:
    """Exactly max_tokens tokens for prompts of one length, by transformers' own loop."""
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=max_tokens, eos_token_id=None, pad_token_id=0,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    ids = torch.tensor(prompts)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
    logits = torch.stack(out.logits, dim=1).float().numpy()
    tokens = out.sequences[:, ids.shape[1] :].tolist()
    return list(zip(tokens, logits, strict=True))


if __name__ == "__main__":
    main()
