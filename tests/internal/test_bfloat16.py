"""In bfloat16 the logits stay near float32's, on a GPU where there is one and else on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from minisgl.core import SamplingParams
from minisgl.env import ENV
from minisgl.llm import LLM

MODELS = Path(__file__).resolve().parents[2] / "models"
TOLERANCE = 0.12
"""Largest root mean square difference of a row, in standard deviations of its logits.

transformers in bfloat16 is 0.030 to 0.098 from its own float32 on these prompts and models.
"""


def logits_of(
    folder: Path, dtype: torch.dtype, prompts: list[list[int]], **settings: object
) -> list[torch.Tensor]:
    """The logits behind each prompt, in float32 on the CPU: (vocab,) each."""
    llm = LLM(str(folder), dtype, num_page_override=512, max_running_req=8, **settings)
    rows: list[torch.Tensor] = []
    plain = llm.engine.sampler.sample

    def sample(logits: torch.Tensor, args: object) -> torch.Tensor:
        rows.extend(logits.float().cpu())
        return plain(logits, args)

    llm.engine.sampler.sample = sample  # type: ignore[method-assign, assignment]
    llm.generate(prompts, SamplingParams(max_tokens=1), use_tqdm=False)
    llm.shutdown()
    return rows


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-qwen3", "tiny-llama3", "tiny-mistral"])
@pytest.mark.parametrize("overlap", [False, True])
def test_bfloat16_logits_are_near_those_of_float32(
    name: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (MODELS / name / "config.json").is_file():
        pytest.skip(f"{name} isn't here (python tools/steps.py models make)")
    monkeypatch.setattr(ENV.DISABLE_OVERLAP_SCHEDULING, "value", not overlap)
    generator = torch.Generator().manual_seed(0)
    prompts = [torch.randint(0, 1000, (n,), generator=generator).tolist() for n in (3, 17, 40, 90)]
    exact = logits_of(MODELS / name, torch.float32, prompts)
    rough = logits_of(MODELS / name, torch.bfloat16, prompts, page_size=4)
    pairs = zip(exact, rough, strict=True)
    worst = max(float((a - b).square().mean().sqrt() / a.std()) for a, b in pairs)
    print(f"{name}: root mean square difference {worst:.3f} standard deviations")
    assert worst < TOLERANCE
    assert worst > 0, "bfloat16 gave exactly float32's logits, so it was not used"
