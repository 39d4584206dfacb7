"""The reference itself, asked of transformers about one tiny model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from steplib import models
from steplib.errors import UserError
from steplib.oracle import Oracle
from steplib.prompts import PromptSet

TINY = "tiny-qwen2"
PROMPTS = PromptSet(((3,), (5, 6, 7, 8), tuple(range(100, 120))), 6)

pytestmark = pytest.mark.skipif(not models.present(TINY), reason=f"{TINY} isn't here")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with settings of its own that would change every answer."""
    place = tmp_path_factory.mktemp("models") / "tiny-with-penalty"
    shutil.copytree(models.folder(TINY), place)
    settings = {"repetition_penalty": 5.0, "eos_token_id": list(range(500)), "do_sample": True}
    (place / "generation_config.json").write_text(json.dumps(settings))
    return place


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    return Oracle(tmp_path_factory.mktemp("root"))


def test_a_reference_is_greedy_whole_and_kept(place: Path, oracle: Oracle) -> None:
    reference = oracle.reference(place, PROMPTS)
    assert [len(row) for row in reference.tokens] == [6, 6, 6]
    for prompt, row in enumerate(reference.tokens):
        best = [int(np.argmax(reference.logits(prompt, t))) for t in range(6)]
        assert best == list(row)
    assert 0 < reference.noise < 1e-3 * reference.std
    kept = oracle.place(place, PROMPTS)
    before = kept.stat().st_mtime_ns
    assert oracle.reference(place, PROMPTS).tokens == reference.tokens
    assert kept.stat().st_mtime_ns == before
    assert oracle.place(place, PromptSet(PROMPTS.prompts, 7)) != kept


def test_given_tokens_have_the_logits_of_the_reference(
    place: Path, oracle: Oracle, tmp_path: Path
) -> None:
    reference = oracle.reference(place, PROMPTS)
    out = tmp_path / "forward.npz"
    oracle.forward(place, PROMPTS.lists(), [list(row) for row in reference.tokens], out)
    with np.load(out) as given:
        for prompt in range(3):
            rows = np.array([reference.logits(prompt, t) for t in range(6)])
            assert np.abs(given[f"logits_{prompt}"] - rows).max() <= 10 * reference.noise


def test_a_model_that_transformers_cannot_load_is_named(tmp_path: Path, oracle: Oracle) -> None:
    place = tmp_path / "tiny-broken"
    place.mkdir()
    (place / "config.json").write_text('{"model_type": "llama", "vocab_size": 16}')
    with pytest.raises(UserError, match="transformers could not answer for tiny-broken: "):
        oracle.reference(place, PROMPTS)
    assert not list(oracle.folder.glob("tiny-broken*"))
