"""The tiny checkpoints: what transformers reads in them, and that they are odd on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from steplib import models
from steplib.checkpoints.liveliness import Liveliness, check_liveliness, measure
from steplib.checkpoints.tensorfile import write_tensors
from steplib.checkpoints.tiny import bell, draw
from steplib.checkpoints.tokenizer import VOCABULARY, learn_merges
from steplib.errors import UserError

TINY = [name for name in models.names() if models.checkpoint(name).tiny]
TEXTS = [
    "Hello, world: 12 345 don't",
    "  two  spaces\n\n\tdef f(x):\r\n        return 3.14",
    "naïve Straße 你好，世界 🙂👩‍🚀 é",
    "",
]


def _config(name: str) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((models.folder(name) / "config.json").read_bytes())
    return table


def _weights(name: str) -> dict[str, torch.Tensor]:
    found = {}
    for file in models.ensure(name).glob("*.safetensors"):
        found |= load_file(file)
    return found


@pytest.mark.parametrize("name", TINY)
def test_transformers_loads_every_tensor(name: str) -> None:
    model, info = AutoModelForCausalLM.from_pretrained(
        models.ensure(name), output_loading_info=True
    )
    assert not any(info.values()), info
    assert type(model).__name__ == _config(name)["architectures"][0]
    assert model.dtype == torch.float32
    assert model.config.vocab_size == VOCABULARY


@pytest.mark.parametrize("name", TINY)
def test_its_output_is_varied_and_depends_on_the_prompt(name: str) -> None:
    found = check_liveliness(name, models.ensure(name))
    assert found.distinct >= 30 and found.changed >= 0.9


def test_a_lifeless_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Liveliness(distinct=1, changed=0.0)
    monkeypatch.setattr("steplib.checkpoints.liveliness.measure", lambda folder: found)
    with pytest.raises(UserError, match="not lively enough for parity"):
        check_liveliness("tiny-qwen3", Path())


def test_a_model_that_repeats_one_token_measures_as_lifeless(tmp_path: Path) -> None:
    source = models.ensure("tiny-mistral")
    for file in source.glob("*.json"):
        if file.name != "model.safetensors.index.json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    flat = {name: tensor.numpy() * 0 + 0.01 for name, tensor in _weights("tiny-mistral").items()}
    write_tensors(tmp_path / "model.safetensors", flat)
    assert measure(tmp_path) == Liveliness(distinct=1, changed=0.0)


@pytest.mark.parametrize("name", TINY)
def test_text_survives_the_tokenizer(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(models.ensure(name))
    assert len(tokenizer) == VOCABULARY
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text
        assert all(0 <= token < VOCABULARY - 3 for token in ids)


@pytest.mark.parametrize("name", TINY)
def test_the_chat_template_is_chatml(name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(models.ensure(name))
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    turns = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
    assert text == turns + "<|im_start|>assistant\n"
    ids = tokenizer.apply_chat_template(chat, return_dict=False)
    assert [ids.count(token) for token in (1028, 1029, 1030)] == [0, 2, 2]
    assert tokenizer.eos_token_id == 1030


@pytest.mark.parametrize("name", TINY)
def test_sizes_are_odd_on_purpose(name: str) -> None:
    config = AutoConfig.from_pretrained(models.ensure(name))
    assert config.rms_norm_eps == 1e-3
    assert config.rope_parameters["rope_theta"] not in (10_000.0, 500_000.0, 1_000_000.0)
    assert config.num_attention_heads // config.num_key_value_heads in (3, 6)
    assert config.vocab_size % 2 and config.vocab_size % 3
    assert config.max_position_embeddings >= 512
    if name != "tiny-mistral":
        assert config.head_dim != config.hidden_size // config.num_attention_heads


@pytest.mark.parametrize("name", TINY)
def test_one_layers_projections_lie_in_different_files(name: str) -> None:
    index = models.folder(name) / "model.safetensors.index.json"
    places = json.loads(index.read_bytes())["weight_map"]
    assert len(set(places.values())) in (2, 3)
    layers = [
        {places[f"model.layers.{layer}.self_attn.{x}_proj.weight"] for x in "qkv"}
        for layer in range(4)
    ]
    assert any(len(files) > 1 for files in layers)


def test_both_kinds_of_head_and_both_styles_of_rope_occur() -> None:
    heads = {name: "lm_head.weight" in _weights(name) for name in TINY}
    tied = {name: _config(name)["tie_word_embeddings"] for name in TINY}
    assert {(tied[name], heads[name]) for name in TINY} == {
        (True, False),
        (True, True),
        (False, True),
    }
    styles = {"rope_parameters" in _config(name) for name in TINY}
    assert styles == {True, False}


def test_each_family_has_what_it_is_there_for() -> None:
    qwen2, mistral, llama = (_config(f"tiny-{x}") for x in ("qwen2", "mistral", "llama3"))
    bias = _weights("tiny-qwen2")["model.layers.0.self_attn.k_proj.bias"]
    assert bias.std() > 0.3
    assert qwen2["sliding_window"] and not qwen2["use_sliding_window"]
    assert mistral["sliding_window"] == 24 and mistral["head_dim"] is None
    assert llama["rope_scaling"]["original_max_position_embeddings"] == 64
    norm = _weights("tiny-qwen3")["model.layers.0.self_attn.q_norm.weight"]
    assert norm.shape == (64,) and 0.1 < norm.std() < 0.3
    assert "model.layers.3.mlp.experts.9.down_proj.weight" in _weights("tiny-qwen3-moe")


def test_drawn_numbers_are_a_bell_and_the_same_everywhere() -> None:
    z = bell(np.random.PCG64(7), 100_000)
    assert abs(float(z.mean())) < 0.01 and abs(float(z.std()) - 1) < 0.01
    assert z[:3].tolist() == [1.5846099853515625, -1.728179931640625, -1.1983489990234375]
    assert z.dtype == np.float32


def test_drawing_twice_gives_equal_weights() -> None:
    recipe = models.checkpoint("tiny-mistral").tiny
    assert recipe
    first, second = draw(recipe), draw(recipe)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_merges_are_distinct_and_the_most_frequent_comes_first() -> None:
    merges = learn_merges(50)
    assert len(set(merges)) == 50
    assert merges[:2] == [("Ġ", "Ġ"), ("Ġ", "t")], "indentation, then words with t"
