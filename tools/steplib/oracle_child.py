"""The reference: transformers in float32, in a process that never sees the engine.

Reads a JSON list of jobs on stdin and writes one .npz a job; a line on stdout says what is done.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

Rows = list[np.ndarray]


def main() -> None:
    """Do every job of stdin."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for job in json.load(sys.stdin):
        model = _load(job["model"])
        answer = _forward(model, job) if "tokens" in job else _reference(model, job)
        _save(Path(job["out"]), answer)
        print(json.dumps({"done": job["model"]}), flush=True)


def _load(path: str) -> Any:
    model = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", local_files_only=True
    ).eval()
    # a checkpoint's own generation settings may carry a repetition penalty or an end id
    model.generation_config = GenerationConfig()
    return model


def _reference(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Tokens, their logits, the model's noise and the spread of its logits."""
    answers = [_greedy(model, prompt, job["max_tokens"]) for prompt in job["prompts"]]
    tokens, logits = [a[0] for a in answers], [a[1] for a in answers]
    return {
        "tokens": np.array(tokens),
        "noise": _noise(model, job["prompts"], tokens, logits),
        "std": float(np.mean([rows.std(axis=-1).mean() for rows in logits])),
        **{f"logits_{i}": rows for i, rows in enumerate(logits)},
    }


@torch.inference_mode()
def _greedy(model: Any, prompt: list[int], max_tokens: int) -> tuple[list[int], np.ndarray]:
    """Exactly max_tokens tokens by transformers' own loop, with no end id and no penalty."""
    settings = GenerationConfig(
        do_sample=False, max_new_tokens=max_tokens, eos_token_id=None, pad_token_id=0,
        output_logits=True, return_dict_in_generate=True,
    )  # fmt: skip
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, generation_config=settings)
    logits = torch.cat(out.logits).float().numpy()
    tokens = out.sequences[0, len(prompt) :].tolist()
    if tokens != logits.argmax(axis=-1).tolist() or len(tokens) != max_tokens:
        raise SystemExit("transformers' generate did not take the best token each time")
    return tokens, logits


def _noise(model: Any, prompts: list[list[int]], tokens: list[list[int]], alone: Rows) -> float:
    """How far transformers is from itself: each prompt alone, and all in one padded batch."""
    batch = _padded_logits(model, prompts, tokens)
    return max(float(np.abs(a - b).max()) for a, b in zip(alone, batch, strict=True))


@torch.inference_mode()
def _padded_logits(model: Any, prompts: list[list[int]], tokens: list[list[int]]) -> Rows:
    """The logits of each given token, from one left-padded batch of prompts with their tokens."""
    rows = [prompt + given[:-1] for prompt, given in zip(prompts, tokens, strict=True)]
    longest = max(map(len, rows))
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    places = (mask.cumsum(-1) - 1).clamp(min=0)
    keep = max(map(len, tokens))
    out = model(ids, attention_mask=mask, position_ids=places, logits_to_keep=keep).logits
    return [out[i, keep - len(given) :].float().numpy() for i, given in enumerate(tokens)]


def _forward(model: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Logits of the given tokens after each prompt, one prompt at a time."""
    pairs = zip(job["prompts"], job["tokens"], strict=True)
    rows = [_padded_logits(model, [prompt], [given])[0] for prompt, given in pairs]
    return {f"logits_{i}": row for i, row in enumerate(rows)}


def _save(out: Path, answer: dict[str, Any]) -> None:
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **answer)
        os.replace(temporary, out)
    finally:
        temporary.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
