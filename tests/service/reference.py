"""What a model answers without a server: LLM.generate's answers, and transformers'."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from running import MODELS

from minisgl.core import SamplingParams
from minisgl.llm import LLM
from minisgl.utils import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PROMPTS = [
    "The sea was calm that morning, and",
    "def add(a, b):",
    "Once upon a time there was a small town",
    "1, 2, 3, 4,",
    "Grüße aus Zürich; 你好",
]
CHAT = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "What is the capital of France?"},
]


class Expected(NamedTuple):
    """An answer and its ids."""

    text: str
    ids: list[int]


class Reference:
    """A model in this process, in float32; each answer is computed once."""

    def __init__(self, name: str) -> None:
        torch.set_num_threads(1)  # a server needs the other core
        self.folder = str(MODELS / name)
        self.tokenizer = load_tokenizer(self.folder)
        self._known: dict[str, Expected] = {}

    @cached_property
    def llm(self) -> LLM:
        return LLM(self.folder, torch.float32, num_page_override=8192)

    @cached_property
    def model(self) -> PreTrainedModel:
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)
        return model.eval()

    def close(self) -> None:
        """Give up the model, if it was used."""
        if "llm" in self.__dict__:
            self.llm.shutdown()

    def chat_ids(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the ids of a chat, as the model's template writes it."""
        text = self.tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def answer(self, prompt: str | list[int], max_tokens: int, **params: Any) -> Expected:
        """Return LLM.generate's answer to one prompt."""
        return self.answers([prompt], max_tokens, **params)[0]

    def answers(
        self, prompts: list[str | list[int]] | list[str], max_tokens: int, **params: Any
    ) -> list[Expected]:
        """Return LLM.generate's answers, each as if the prompt were alone."""
        return self._answers([(prompt, max_tokens, params) for prompt in prompts])

    def seeded(
        self, prompt: str | list[int], max_tokens: int, seeds: Iterable[int], **params: Any
    ) -> list[Expected]:
        """Return LLM.generate's answers to one prompt, one for each seed."""
        return self._answers([(prompt, max_tokens, {**params, "seed": seed}) for seed in seeds])

    def _answers(self, wanted: list[tuple[str | list[int], int, dict[str, Any]]]) -> list[Expected]:
        keys = [json.dumps(each) for each in wanted]
        if new := [i for i, key in enumerate(keys) if key not in self._known]:
            params = [SamplingParams(max_tokens=wanted[i][1], **wanted[i][2]) for i in new]
            made: Any = self.llm.generate([wanted[i][0] for i in new], params, use_tqdm=False)
            for i, answer in zip(new, made, strict=True):
                self._known[keys[i]] = Expected(answer["text"], answer["token_ids"])
        return [self._known[key] for key in keys]

    @torch.inference_mode()
    def transformers_ids(self, ids: list[int], max_tokens: int) -> list[int]:
        """Return transformers' greedy answer, without the end id that ends it."""
        made = self.model.generate(  # type: ignore[operator]
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=max_tokens,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
        )[0].tolist()[len(ids) :]
        ends = self.model.generation_config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        return made[:-1] if made and made[-1] in ends else made

    @torch.inference_mode()
    def logprobs(self, ids: list[int], answer: list[int]) -> torch.Tensor:
        """Return transformers' log-probabilities in each of answer's places: (tokens, vocab)."""
        logits = self.model(torch.tensor([ids + answer])).logits[0]  # type: ignore[operator]
        return torch.log_softmax(logits[len(ids) - 1 : -1].double(), dim=-1)
