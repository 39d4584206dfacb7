"""Chapter 13: prompts become the ids that the model was trained to see, with one begin id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from pairs import checkpoint, equal, error_of, refused

BOS, A, B, SEP = 0, 1, 2, 3
WITH_BOS = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}|"
WITHOUT = "{% for m in messages %}{{ m.content }}{% endfor %}|"
HELLO = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
PICKY = "{{ raise_exception('roles must alternate') }}"


def tokenizer(
    adds_bos: bool = True, template: str | None = None, bos: bool = True, frame: str = "<s> $A"
) -> Any:
    """One token for each of <s>, a, b and |; adds_bos: it puts a text into the frame by itself."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({"<s>": BOS, "a": A, "b": B, "|": SEP}, unk_token="|"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.add_special_tokens([AddedToken("<s>", special=True)])
    if adds_bos:
        made.post_processor = processors.TemplateProcessing(
            single=frame, special_tokens=[("<s>", BOS), ("|", SEP)]
        )
    kept = {"bos_token": "<s>"} if bos else {}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=made, **kept)
    wrapped.chat_template = template
    return wrapped


def ids_of(wrapped: Any, *texts: Any) -> list[list[int]]:
    from minisgl.core import SamplingParams
    from minisgl.message import TokenizeMsg
    from minisgl.tokenizer.tokenize import TokenizeManager

    msgs = [TokenizeMsg(i, text, SamplingParams()) for i, text in enumerate(texts)]
    return [ids.tolist() for ids in TokenizeManager(wrapped).tokenize(msgs)]


def chat(*contents: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": content} for content in contents]


def probe_a_prompt_begins_with_exactly_one_begin_id(seed):
    texts = ("ab", "<s>ab", "<s><s>ab", "", chat("a", "b"))
    kinds = {
        f"{adds} {template is WITH_BOS}": tokenizer(adds, template)
        for adds in (True, False)
        for template in (WITH_BOS, WITHOUT)
    }
    nameless = ids_of(tokenizer(False, WITHOUT, bos=False), "ab", chat("a"))
    return [{kind: ids_of(made, *texts) for kind, made in kinds.items()}, nameless]


def judge_a_prompt_begins_with_exactly_one_begin_id(seed, got):
    made, nameless = got
    one = [[BOS, A, B], [BOS, A, B], [BOS, A, B], [BOS], [BOS, A, B, SEP]]
    for kind in ("True True", "True False"):
        equal(made[kind], one, f"prompts of a tokenizer that adds it; template has it: {kind}")
    own = [[A, B], [BOS, A, B], [BOS, BOS, A, B], []]
    equal(made["False True"], [*own, [BOS, A, B, SEP]], "prompts where only the template adds it")
    equal(made["False False"], [*own, [A, B, SEP]], "prompts where nothing adds it")
    equal(nameless, [[A, B], [A, SEP]], "prompts of a tokenizer without a begin token")


def probe_a_text_ends_as_the_tokenizer_ends_it_and_a_chat_as_its_template_does(seed):
    made = tokenizer(
        template="{% for m in messages %}{{ m.content }}{% endfor %}b", frame="<s> $A |"
    )
    return ids_of(made, "a", chat("a"))


def judge_a_text_ends_as_the_tokenizer_ends_it_and_a_chat_as_its_template_does(seed, got):
    equal(got, [[BOS, A, SEP], [BOS, A, B]], "a text and a chat")


def probe_prompts_are_those_of_the_checkpoint(seed):
    from tokenizers import Tokenizer

    from minisgl.utils import load_tokenizer

    folder = checkpoint("tiny-qwen3")
    plain = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    want = [plain.encode(text).ids for text in ("Hello, wörld", HELLO, "")]
    return [ids_of(load_tokenizer(folder), "Hello, wörld", chat("Hello"), ""), want]


def judge_prompts_are_those_of_the_checkpoint(seed, got):
    made, want = got
    equal([len(ids) > 0 for ids in want], [True, True, False], "which have tokens")
    equal(made, want, "a text, a chat and nothing")


def probe_prompts_are_int32_on_the_cpu_in_the_order_of_the_messages(seed):
    from minisgl.core import SamplingParams
    from minisgl.message import TokenizeMsg
    from minisgl.tokenizer.tokenize import TokenizeManager

    msgs = [TokenizeMsg(uid, text, SamplingParams()) for uid, text in ((9, "b"), (2, "aa"))]
    made = TokenizeManager(tokenizer()).tokenize(msgs)
    kinds = [[ids.dtype == torch.int32, ids.is_cpu, ids.dim()] for ids in made]
    return [kinds, [ids.tolist() for ids in made]]


def judge_prompts_are_int32_on_the_cpu_in_the_order_of_the_messages(seed, got):
    equal(got[0], [[True, True, 1]] * 2, "int32, on the CPU, dimensions")
    equal(got[1], [[BOS, B], [BOS, A, A]], "the ids")


IDS = ([SEP, BOS, BOS, A], [A], [BOS, B], [10**6, 2**31 - 1, 0], [])
"""Prompts that a client sends as ids, also such as no text would become."""
NO_IDS = (-1, 2**31, 2**40, -(2**63))


def probe_ids_stay_as_they_are(seed):
    from minisgl.core import SamplingParams
    from minisgl.message import TokenizeMsg
    from minisgl.tokenizer.tokenize import TokenizeManager

    made = TokenizeManager(tokenizer(template=WITH_BOS))
    rows = made.tokenize([TokenizeMsg(i, list(ids), SamplingParams()) for i, ids in enumerate(IDS)])
    wrong = [[[A, value, B], [value]] for value in NO_IDS]
    errors = [
        [error_of(lambda ids=ids: ids_of(tokenizer(), ids)) for ids in both] for both in wrong
    ]
    kinds = [[ids.dtype == torch.int32, ids.is_cpu, ids.dim()] for ids in rows]
    return [[ids.tolist() for ids in rows], kinds, errors]


def judge_ids_stay_as_they_are(seed, got):
    equal(got[0], [list(ids) for ids in IDS], "the ids, to which no begin id is added")
    equal(got[1], [[True, True, 1]] * len(IDS), "int32, on the CPU, dimensions")
    for value, errors in zip(NO_IDS, got[2], strict=True):
        for error in errors:
            refused(error, "an id that is none", "token id", str(value), kind="ValueError")


def probe_a_chat_that_cannot_be_rendered_is_refused(seed):
    wrong = {"none": tokenizer(), "picky": tokenizer(template=PICKY)}
    found = {
        kind: error_of(lambda made=made: ids_of(made, chat("a"))) for kind, made in wrong.items()
    }
    missing = [{"role": "user"}]
    template = "{{ messages[0]['role'] + messages[0]['content'] }}"
    found["missing"] = error_of(lambda: ids_of(tokenizer(template=template), missing))
    return found


def judge_a_chat_that_cannot_be_rendered_is_refused(seed, got):
    refused(got["none"], "a chat without a template", "no chat template", kind="ValueError")
    refused(got["picky"], "a chat that the template refuses", "roles must", kind="ValueError")
    refused(got["missing"], "a message without content", "template", kind="ValueError")
