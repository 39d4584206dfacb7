"""Prompts and checkpoints: which ones a chapter is compared on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runnable_book import RunnableBook

from steplib.errors import UserError
from steplib.lineup import Lineup
from steplib.manifest import OPTIONAL, REAL
from steplib.prompts import prompt_set, turning_length


def checkpoint(folder: Path, name: str = "tiny-made", **config: Any) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps({"vocab_size": 50, **config}))
    return place


def test_a_tiny_model_gets_six_prompts_of_different_lengths(tmp_path: Path) -> None:
    found = prompt_set(checkpoint(tmp_path))
    lengths = [len(prompt) for prompt in found.prompts]
    assert (len(set(lengths)), min(lengths), max(lengths), found.max_tokens) == (6, 1, 40, 64)
    assert all(0 <= token < 50 for prompt in found.prompts for token in prompt)


def test_prompts_are_fixed_by_their_seed(tmp_path: Path) -> None:
    place = checkpoint(tmp_path)
    assert prompt_set(place) == prompt_set(place)
    assert prompt_set(place, seed=1) != prompt_set(place)


@pytest.mark.parametrize(
    ("config", "turn"),
    [
        ({"rope_scaling": {"original_max_position_embeddings": 64}}, 64),
        ({"rope_parameters": {"original_max_position_embeddings": 48}}, 48),
        ({"sliding_window": 24}, 24),
        ({"sliding_window": 24, "use_sliding_window": True}, 24),
        ({"sliding_window": 24, "use_sliding_window": False}, None),
        ({"sliding_window": None}, None),
        ({}, None),
    ],
)
def test_one_prompt_goes_past_where_the_model_changes_its_ways(
    config: dict[str, Any], turn: int | None, tmp_path: Path
) -> None:
    assert turning_length(config) == turn
    longest = max(map(len, prompt_set(checkpoint(tmp_path, **config)).prompts))
    assert longest > (turn or 0)


def test_a_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json can't be read"):
        prompt_set(tmp_path / "tiny-gone")


def test_real_models_join_where_they_are(tmp_path: Path) -> None:
    book = RunnableBook(tmp_path / "book")
    chapter, models = book.load().chapter(1), book.root / "models"
    lineup = Lineup(models)
    assert [m.name for m in lineup.parity_models(chapter)] == ["tiny-made"]
    assert lineup.main_model(chapter).name == "tiny-made"
    assert not lineup.has_real
    assert [note.split(":")[0] for note in lineup.notes][0] == "real model NOT checked"
    checkpoint(models, REAL)
    checkpoint(models, OPTIONAL)
    lineup = Lineup(models)
    assert [m.name for m in lineup.parity_models(chapter)] == ["tiny-made", REAL, OPTIONAL]
    assert lineup.main_model(chapter).name == REAL
    assert lineup.has_real and lineup.notes == []
    assert lineup.used([chapter]) == ["tiny-made", REAL, OPTIONAL]


def test_one_model_may_be_chosen_by_name_or_folder(tmp_path: Path) -> None:
    book = RunnableBook(tmp_path / "book")
    chapter, models = book.load().chapter(1), book.root / "models"
    other = checkpoint(tmp_path / "elsewhere", "own-model")
    for chosen, name in (("tiny-made", "tiny-made"), (str(other), "own-model")):
        lineup = Lineup(models, chosen)
        assert [m.name for m in lineup.parity_models(chapter)] == [name]
        assert lineup.main_model(chapter).name == name
    for wrong, says in (("tiny-qwen3", "models make tiny-qwen3"), ("nothing", "models list")):
        with pytest.raises(UserError, match=says):
            Lineup(models, wrong).parity_models(chapter)
