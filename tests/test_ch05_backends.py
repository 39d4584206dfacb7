"""Chapter 05: a backend is chosen by name, and what is asked for is never replaced."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import torch

from pairs import equal, error_of, refused, truth

NAMES = ("torch", "torch,torch", "auto")
WRONG = ("flash", "", "torch,", "torch,flash", "auto,torch", "Torch", "torch,torch,torch")


def model_config() -> Any:
    from transformers import LlamaConfig

    from minisgl.core import Context, set_global_ctx
    from minisgl.models import ModelConfig

    set_global_ctx(Context(1))
    return ModelConfig.from_hf(LlamaConfig(num_hidden_layers=2))


def stand_ins(*names: str) -> list[list[Any]]:
    """Register a backend under each name; returns the list in which they note their calls."""
    from minisgl.attention import SUPPORTED_ATTENTION_BACKENDS, BaseAttnBackend

    notes: list[list[Any]] = []

    class StandIn(BaseAttnBackend):
        def __init__(self, name: str) -> None:
            self.name = name

        def prepare_metadata(self, batch: Any) -> None:
            notes.append([self.name, "prepare", batch.phase])

        def forward(self, q: Any, k: Any, v: Any, layer_id: int, batch: Any) -> torch.Tensor:
            given = [x.item() for x in (q, k, v)]
            notes.append([self.name, "forward", batch.phase, given, layer_id])
            return q + (10 if self.name == "first" else 20)

    for name in names:
        SUPPORTED_ATTENTION_BACKENDS.register(name)(lambda config, name=name: StandIn(name))
    return notes


def probe_a_good_name_is_handed_back(seed):
    from minisgl.attention import validate_attn_backend

    return [validate_attn_backend(name) for name in NAMES]


def judge_a_good_name_is_handed_back(seed, got):
    equal(got, NAMES, "the names, as they were given")


def probe_a_wrong_name_is_refused_with_the_list_of_good_ones(seed):
    from minisgl.attention import create_attention_backend, validate_attn_backend

    config = model_config()
    asked = [error_of(lambda n=name: validate_attn_backend(n)) for name in WRONG]
    created = [error_of(lambda n=name: create_attention_backend(n, config)) for name in WRONG]
    auto = error_of(lambda: validate_attn_backend("auto", allow_auto=False))
    return [asked, created, auto]


def judge_a_wrong_name_is_refused_with_the_list_of_good_ones(seed, got):
    asked, created, auto = got
    equal(created, asked, "errors of create, beside those of validate")
    culprits = ("'flash'", "''", "''", "'flash'", "'auto'", "'Torch'")
    for name, culprit, error in zip(WRONG, culprits, asked, strict=False):
        words = ("attention backend", culprit, "choose one of: torch")
        refused(error, f"backend {name!r}", *words, kind="ValueError")
    refused(asked[-1], "three backends", "names 3 backends", "prefill,decode", kind="ValueError")
    refused(auto, "auto where it isn't allowed", "'auto'", "torch", kind="ValueError")


def probe_auto_and_torch_give_the_torch_backend(seed):
    from minisgl.attention import SUPPORTED_ATTENTION_BACKENDS, create_attention_backend

    made = [create_attention_backend(name, model_config()) for name in ("auto", "torch")]
    names = SUPPORTED_ATTENTION_BACKENDS.supported_names()
    return [[type(backend).__name__ for backend in made], names]


def judge_auto_and_torch_give_the_torch_backend(seed, got):
    equal(got[0], ["TorchAttentionBackend"] * 2, "backends for auto and torch")
    truth("torch" in got[1], "torch is listed", got[1])


def probe_cudnn_is_out_of_the_choice_of_kernels(seed):
    from minisgl.attention import create_attention_backend

    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        create_attention_backend("torch", model_config())
        return torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def judge_cudnn_is_out_of_the_choice_of_kernels(seed, got):
    equal(got, False, "cuDNN, which plans anew for every length, may be chosen")


def probe_one_log_line_says_what_was_asked_for_and_what_is_used(seed):
    from minisgl.attention import create_attention_backend

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("minisgl.attention")
    logger.addHandler(handler)
    create_attention_backend("auto", model_config())
    logger.removeHandler(handler)
    return lines


def judge_one_log_line_says_what_was_asked_for_and_what_is_used(seed, got):
    equal(len(got), 1, "number of log lines")
    truth("torch" in got[0] and "auto" in got[0], "it names torch and auto", got[0])


def probe_a_pair_uses_its_first_for_prefill_and_its_second_for_decode(seed):
    from minisgl.attention import create_attention_backend
    from minisgl.core import Batch

    notes = stand_ins("first", "second")
    backend = create_attention_backend("first,second", model_config())
    results = []
    for layer, phase in enumerate(("prefill", "decode", "prefill")):
        batch = Batch([], phase)
        backend.prepare_metadata(batch)
        q, k, v = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
        results.append(backend.forward(q, k, v, layer, batch).item())
    return [notes, results]


def judge_a_pair_uses_its_first_for_prefill_and_its_second_for_decode(seed, got):
    want = []
    for layer, (phase, name) in enumerate(
        (("prefill", "first"), ("decode", "second"), ("prefill", "first"))
    ):
        want.append([name, "prepare", phase])
        want.append([name, "forward", phase, [1.0, 2.0, 3.0], layer])
    equal(got[0], want, "calls of the two backends")
    equal(got[1], [11.0, 21.0, 11.0], "what the pair hands back")


def probe_a_backend_that_is_asked_for_by_name_is_used_or_its_error_shown(seed):
    from minisgl.attention import SUPPORTED_ATTENTION_BACKENDS, create_attention_backend

    stand_ins("third")

    @SUPPORTED_ATTENTION_BACKENDS.register("broken")
    def make(config: Any) -> Any:
        raise ImportError("broken needs a GPU")

    config = model_config()
    used = create_attention_backend("third", config).name
    names = ("broken", "torch,broken", "broken,torch")
    return [used, [error_of(lambda n=n: create_attention_backend(n, config)) for n in names]]


def judge_a_backend_that_is_asked_for_by_name_is_used_or_its_error_shown(seed, got):
    equal(got[0], "third", "the backend in use")
    for error in got[1]:
        refused(error, "a backend that can't be made", "broken needs a GPU", kind="ImportError")


def probe_a_creator_gets_the_config_of_the_model(seed):
    from minisgl.attention import SUPPORTED_ATTENTION_BACKENDS, create_attention_backend

    given: list[Any] = []
    SUPPORTED_ATTENTION_BACKENDS.register("fourth")(given.append)
    config = SimpleNamespace()
    create_attention_backend("fourth,fourth", config)
    return [x is config for x in given]


def judge_a_creator_gets_the_config_of_the_model(seed, got):
    equal(got, [True, True], "the config came to both creators")


def probe_a_backend_or_metadata_that_leaves_something_out_cant_be_made(seed):
    from minisgl.attention import BaseAttnBackend, BaseAttnMetadata

    found = []
    for base in (BaseAttnBackend, BaseAttnMetadata):
        names = sorted(base.__abstractmethods__)
        type("Whole", (base,), dict.fromkeys(names))()
        parts = [{name: None for name in names if name != left_out} for left_out in names]
        errors = [error_of(type("Part", (base,), part)) for part in parts]
        found.append(dict(zip(names, errors, strict=True)))
    return found


def judge_a_backend_or_metadata_that_leaves_something_out_cant_be_made(seed, got):
    equal([sorted(x) for x in got], [["forward", "prepare_metadata"], ["get_last_indices"]],
          "what backends and metadata must have")  # fmt: skip
    for errors in got:
        for name, error in errors.items():
            refused(error, f"a class without {name}", name, kind="TypeError")
