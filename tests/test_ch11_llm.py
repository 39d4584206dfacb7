"""Chapter 11: LLM.generate takes prompts and gives back their answers, whatever goes on inside."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from pairs import checkpoint, equal, error_of, public_bug, refused, truth

MODEL = "tiny-qwen3"


def llm(path: str | None = None, **settings: Any) -> Any:
    """An LLM in float32 with room for 512 tokens."""
    from minisgl.llm import LLM

    pages = 512 // settings.get("page_size", 1)
    fixed = {"dtype": torch.float32, "num_page_override": pages, "max_running_req": 8}
    return LLM(path or checkpoint(MODEL), **{**fixed, **settings})


def greedy(max_tokens: int = 8, **more: Any) -> Any:
    from minisgl.core import SamplingParams

    return SamplingParams(max_tokens=max_tokens, **{"ignore_eos": True, **more})


def prompts(seed: int, count: int = 6) -> list[list[int]]:
    """Token ids; every second prompt shares 8 tokens with the others like it."""
    rng = np.random.default_rng(seed)
    shared = rng.integers(0, 1000, 8).tolist()
    return [shared * (i % 2) + rng.integers(0, 1000, 3 + i).tolist() for i in range(count)]


def ids(outputs: list[dict[str, Any]]) -> list[list[int]]:
    return [output["token_ids"] for output in outputs]


def quiet(model: Any, asked: Any, params: Any) -> list[list[int]]:
    return ids(model.generate(asked, params, use_tqdm=False))


def scripted(model: Any, *rounds: list[int]) -> Any:
    """Make a model that serves one request at a time say these tokens, whatever it computes."""
    script = iter([token for tokens in rounds for token in tokens])
    device = model.engine.device
    model.engine.sampler.sample = lambda logits, args: torch.tensor([next(script)], device=device)
    return model


def overlap_off() -> Any:
    from minisgl.env import ENV

    return mock.patch.object(ENV.DISABLE_OVERLAP_SCHEDULING, "value", True)


@public_bug("B104")
def probe_results_stand_in_the_order_of_the_prompts(seed):
    asked = prompts(seed)
    params = [greedy(n) for n in (9, 2, 5, 1, 7, 3)]
    model = llm(max_extend_tokens=15)  # the prompts come in over several polls
    first = model.generate(asked, params, use_tqdm=False)
    alone = [quiet(model, [p], s)[0] for p, s in zip(asked, params, strict=True)]
    fresh = [quiet(llm(cache_type="naive"), [p], s)[0] for p, s in zip(asked, params, strict=True)]
    kinds = [[type(x).__name__, sorted(x), type(x["text"]).__name__] for x in first]
    texts = [model.tokenizer.decode(x["token_ids"]) for x in first]
    return [ids(first), alone, fresh, kinds, [x["text"] for x in first], texts]


def judge_results_stand_in_the_order_of_the_prompts(seed, got):
    together, alone, fresh, kinds, text, texts = got
    equal([len(x) for x in together], [9, 2, 5, 1, 7, 3], "tokens of each answer")
    equal(together, fresh, "tokens in one call, and each from an LLM of its own")
    equal(alone, fresh, "tokens one call each, and each from an LLM of its own")
    equal(kinds, [["dict", ["text", "token_ids"], "str"]] * 6, "kind, keys and kind of text")
    equal(text, texts, "text, and the tokens decoded")


def probe_every_token_is_what_a_prefill_of_all_before_it_gives(seed):
    asked, model = prompts(seed, 4), llm(page_size=4, max_extend_tokens=6)
    answers = quiet(model, asked, greedy(6))
    plain, want = llm(cache_type="naive"), []
    for prompt, tokens in zip(asked, answers, strict=True):
        longer = [prompt + tokens[:i] for i in range(len(tokens))]
        want.append([x[0] for x in quiet(plain, longer, greedy(1))])
    return [answers, want]


def judge_every_token_is_what_a_prefill_of_all_before_it_gives(seed, got):
    equal(got[0], got[1], "tokens, and each by a prefill of its own")
    truth(len({x for row in got[0] for x in row}) > 12, "the tokens differ", got[0])


@public_bug("B104")
def probe_a_call_knows_nothing_of_the_one_before(seed):
    asked, model = prompts(seed), llm()
    first = quiet(model, asked, greedy())
    second = quiet(model, asked[::-1], greedy())
    few = quiet(model, asked[2:4], greedy(3))
    return [first, second, few, model.generate([], greedy(), use_tqdm=False)]


def judge_a_call_knows_nothing_of_the_one_before(seed, got):
    first, second, few, none = got
    equal(second, first[::-1], "tokens of the same prompts the other way round")
    equal(few, [x[:3] for x in first[2:4]], "tokens of two of them, three each")
    equal(none, [], "answers to no prompts")


def probe_texts_and_token_ids_may_be_mixed(seed):
    model = llm()
    text = "Once upon a time"
    tokens = model.tokenizer.encode(text)
    mixed = quiet(model, [text, tokens, text + "!"], greedy())
    return [mixed, quiet(model, [tokens], greedy()), len(tokens)]


def judge_texts_and_token_ids_may_be_mixed(seed, got):
    mixed, alone, length = got
    truth(length > 2, "the text has several tokens", length)
    equal(mixed[:2], alone * 2, "tokens for a text, and for its ids")
    truth(mixed[2] != mixed[0], "another text has another answer", mixed)


def probe_nothing_that_is_given_is_changed(seed):
    model = llm(max_seq_len_override=24)
    asked, params = [*prompts(seed, 3), "Hello"], greedy(400)
    several = [greedy(100 + i, temperature=0.5, seed=i) for i in range(4)]
    before = [str(asked), str(params), str(several)]
    lengths = [len(x) for x in quiet(model, asked, params)]
    quiet(model, asked, several)
    return [before, [str(asked), str(params), str(several)], lengths[:3]]


def judge_nothing_that_is_given_is_changed(seed, got):
    equal(got[1], got[0], "prompts and sampling_params after the calls, and before")
    equal(got[2], [24 - len(p) for p in prompts(seed, 3)], "tokens up to the limit of 24")


@public_bug("B79")
def probe_an_end_id_is_left_out_and_every_other_last_token_is_not(seed):
    model = llm()
    model.eos_token_ids = frozenset({2})
    found = []
    for script, ignore in (([7, 8, 9], False), ([7, 2, 5], False), ([7, 8, 2], True),
                           ([7, 8, 2], False), ([2, 5], False)):  # fmt: skip
        scripted(model, script)
        found.append(quiet(model, [[1, 2, 3]], greedy(3, ignore_eos=ignore))[0])
    return found


def judge_an_end_id_is_left_out_and_every_other_last_token_is_not(seed, got):
    equal(got, [[7, 8, 9], [7], [7, 8, 2], [7, 8], []],
          "ids for 7,8,9; 7,2; 7,8,2 ignoring the end id; 7,8,2; 2")  # fmt: skip


@public_bug("B82")
def probe_every_end_id_of_tokenizer_and_configs_counts(seed):
    source, found = Path(checkpoint(MODEL)), []
    for generation, config in (([2, 6], 1030), (6, 1030), (None, 1030), (None, [6, 9]), (6, None)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(shutil.copytree(source, Path(name) / "model"))
            file = folder / "generation_config.json"
            file.write_text(json.dumps({"eos_token_id": generation}))
            if generation is None and config == 1030:
                file.unlink()
            settings = json.loads((folder / "config.json").read_text())
            settings["eos_token_id"] = config
            (folder / "config.json").write_text(json.dumps(settings))
            model = scripted(llm(str(folder)), [7, 6, 8, 9])
            output = model.generate([[1, 2, 3]], greedy(4, ignore_eos=False), use_tqdm=False)[0]
            scripted(model, [7, 6, 8, 9])
            ignoring = quiet(model, [[1, 2, 3]], greedy(4))[0]
            text = output["text"] == model.tokenizer.decode(output["token_ids"])
            ends = sorted(model.config.eos_token_ids)
            found.append([ends, model.tokenizer.eos_token_id, output["token_ids"], text, ignoring])
    return found


def judge_every_end_id_of_tokenizer_and_configs_counts(seed, got):
    ends = [[2, 6, 1030], [6, 1030], [1030], [6, 9, 1030], [6, 1030]]
    equal([x[1] for x in got], [1030] * 5, "the tokenizer's own end id")
    equal([x[0] for x in got], ends, "end ids: list, number, no file, list in config, none")
    want = [[7], [7], [7, 6, 8, 9], [7], [7]]
    equal([x[2] for x in got], want, "tokens of a model that says 7, 6, 8, 9")
    equal([x[3] for x in got], [True] * 5, "whether the text is without it, too")
    equal([x[4] for x in got], [[7, 6, 8, 9]] * 5, "tokens when end ids are ignored")


@public_bug("B62")
def probe_a_poll_takes_the_prompts_that_fill_one_prefill_batch(seed):
    found = []
    for budget in (20, 21, 25):
        model = llm(max_extend_tokens=budget)
        taken, plain = [], model.offline_receive_msg

        def receive(blocking: bool = False, taken: Any = taken, plain: Any = plain) -> Any:
            taken.append(0)
            msgs = plain(blocking)
            taken[-1] = len(msgs)
            return msgs

        model.offline_receive_msg = receive
        answers = quiet(model, [[i] * 10 for i in range(60)], greedy(1))
        found.append([taken[:3], sum(taken), len(answers), {len(x) for x in answers} == {1}])
    return found


def judge_a_poll_takes_the_prompts_that_fill_one_prefill_batch(seed, got):
    for budget, count, found in zip((20, 21, 25), (2, 3, 3), got, strict=True):
        equal(found[0], [count] * 3, f"requests taken by the first polls, budget {budget}")
        equal(found[1:], [60, 60, True], "requests in all, answers, one token each")


def probe_an_llm_that_was_asked_nothing_has_nothing_to_do(seed):
    return error_of(llm().run_forever)


def judge_an_llm_that_was_asked_nothing_has_nothing_to_do(seed, got):
    refused(got, "a run without a request", kind="RequestAllFinished")


@public_bug("B101")
def probe_every_setting_may_be_given_with_its_default(seed):
    from minisgl.scheduler import SchedulerConfig

    given = {"model_path", "tp_info", "dtype", "offline_mode"}
    fields = [f for f in dataclasses.fields(SchedulerConfig) if f.name not in given]
    found = {}
    for field in fields:
        few = {"num_page_override": 64, "max_running_req": 2, field.name: field.default}
        model = llm(**few)
        found[field.name] = [len(quiet(model, [[1, 2]], greedy(2))[0])]
        model.shutdown()
    everything = {f.name: f.default for f in fields} | {"num_page_override": 64}
    return [found, quiet(llm(**everything), [[1, 2]], greedy(2)), quiet(llm(), [[1, 2]], greedy(2))]


def judge_every_setting_may_be_given_with_its_default(seed, got):
    truth({"moe_backend", "attention_backend", "cache_type"} < set(got[0]), "settings", got[0])
    equal(list(got[0].values()), [[2]] * len(got[0]), "tokens generated with each setting given")
    equal(got[1], got[2], "tokens with all defaults given, and with none")


@public_bug("B89")
def probe_an_answer_has_at_least_one_token(seed):
    from minisgl.core import SamplingParams

    errors = [error_of(lambda n=n: SamplingParams(max_tokens=n)) for n in (0, -1)]
    return [errors, quiet(llm(), prompts(seed, 2), greedy(1))]


def judge_an_answer_has_at_least_one_token(seed, got):
    refused(got[0][0], "max_tokens 0", "max_tokens", "0", kind="ValueError")
    refused(got[0][1], "max_tokens -1", "max_tokens", "-1", kind="ValueError")
    equal([len(x) for x in got[1]], [1, 1], "tokens for max_tokens 1")


def probe_what_cant_be_served_is_refused_before_anything_runs(seed):
    model, good = llm(max_seq_len_override=16), [1, 2, 3]
    ran, plain = [], model.engine.forward_batch
    model.engine.forward_batch = lambda *args: ran.append(1) or plain(*args)
    bad = [
        ([good, []], greedy()),
        ([good, good, [5] * 16], greedy()),
        ([[1, 2000]], greedy()),
        ([good, [-1]], greedy()),
        ([good, 7], greedy()),
        ([[1.5]], greedy()),
        ([good, [2**31]], greedy()),
        ([good, [2**40]], greedy()),
        ([good, [2**64]], greedy()),
        ("Hello", greedy()),
        ([good, good], [greedy()]),
        ([], [greedy()]),
        ([good, good], [greedy(), {"max_tokens": 4}]),
    ]
    errors = [error_of(lambda b=b: model.generate(*b, use_tqdm=False)) for b in bad]
    before = len(ran)
    return [errors, before, quiet(model, [good], greedy(4)), quiet(llm(), [good], greedy(4))]


def judge_what_cant_be_served_is_refused_before_anything_runs(seed, got):
    errors, ran, after, want = got
    words = [
        ("prompt 1", "empty"), ("prompt 2", "16", "15"), ("prompt 0", "2000"), ("prompt 1", "-1"),
        ("prompt 1", "text"), ("prompt 0", "text"), *[("prompt 1", "vocabulary")] * 3,
        ("list",), ("2", "1"), ("0", "1"), ("prompt 1", "dict"),
    ]  # fmt: skip
    for i, (error, named) in enumerate(zip(errors, words, strict=True)):
        refused(error, f"input {i}", *named, kind="ValueError")
    equal(ran, 0, "batches that ran before")
    equal(after, want, "tokens of the next call")


def probe_an_interrupted_call_leaves_nothing_for_the_next(seed):
    asked, found = prompts(seed), []
    for kind in (KeyboardInterrupt, RuntimeError):
        for at in (1, 2, 5):
            model = llm(max_extend_tokens=12)
            quiet(model, asked[:2], greedy(3))
            plain, calls = model.engine.sampler.sample, []

            def sample(
                logits: Any, args: Any, plain: Any = plain, calls: list[int] = calls,
                at: int = at, kind: Any = kind,
            ) -> Any:  # fmt: skip
                calls.append(1)
                if len(calls) == at:
                    raise kind("stop")
                return plain(logits, args)

            model.engine.sampler.sample = sample
            raised = None
            try:
                quiet(model, asked, greedy())
            except BaseException as error:
                raised = type(error).__name__
            after = quiet(model, asked, greedy())
            model.cache_manager.check_integrity()
            found.append([raised, model.table_manager.available_size, after])
    return [found, quiet(llm(), asked, greedy())]


def judge_an_interrupted_call_leaves_nothing_for_the_next(seed, got):
    kinds = ["KeyboardInterrupt"] * 3 + ["RuntimeError"] * 3
    equal(got[0], [[kind, 8, got[1]] for kind in kinds],
          "what was raised, free rows, tokens of the next call")  # fmt: skip


def probe_several_llms_follow_each_other_and_take_turns(seed):
    asked = prompts(seed, 3)
    first = llm()
    alone = [quiet(first, asked, greedy())]
    first.shutdown()
    second = llm(checkpoint("tiny-llama3"), page_size=4)
    alone.append(quiet(second, asked, greedy()))
    first, turns = llm(), []
    for _ in range(2):
        turns.append([quiet(first, asked, greedy()), quiet(second, asked, greedy())])
    return [alone, turns]


def judge_several_llms_follow_each_other_and_take_turns(seed, got):
    alone, turns = got
    truth(alone[0] != alone[1], "the models differ", alone)
    equal(turns, [alone] * 2, "tokens of two LLMs in turns, and of each by itself")


def probe_a_progress_bar_is_shown_or_not(seed):
    model, found = llm(), []
    for shown in (True, False):
        with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(err):
            model.generate(prompts(seed, 3), greedy(4), use_tqdm=shown)
        found.append(err.getvalue())
    with contextlib.redirect_stderr(io.StringIO()) as err:
        model.generate(prompts(seed, 2), greedy(2))
    return [*found, err.getvalue()]


def judge_a_progress_bar_is_shown_or_not(seed, got):
    last = got[0].split("\r")[-1]
    truth("3/3" in last and "request" in last, "the bar counts 3 requests, not their tokens", last)
    equal(got[1], "", "output with use_tqdm off")
    truth("2/2" in got[2], "the bar is shown unless it is turned off", got[2])


def probe_answers_are_equal_with_overlap_on_and_off(seed):
    asked, found = prompts(seed), []
    warm = [greedy(8, temperature=1.0, top_p=0.9, seed=i) for i in range(5)] + [greedy(8)]
    for way in ({}, {"page_size": 4, "max_extend_tokens": 9}, {"cache_type": "naive"}):
        model = llm(**way)
        on = [quiet(model, asked, greedy()), quiet(model, asked, warm)]
        with overlap_off():
            off = [quiet(model, asked, greedy()), quiet(model, asked, warm)]
        alone = [quiet(model, [p], s)[0] for p, s in zip(asked, warm, strict=True)]
        found.append([on, off, alone])
    return found


def judge_answers_are_equal_with_overlap_on_and_off(seed, got):
    for way, (on, off, alone) in zip(("default", "chunks", "naive"), got, strict=True):
        equal(on, off, f"{way}: tokens with overlap, and without")
        equal(on[1], alone, f"{way}: seeded tokens in one batch, and one by one")
        equal(on, got[0][0], f"{way}: tokens, and those of the default settings")
        truth(on[0] != on[1], "sampled tokens aren't the greedy ones", on[1])


def probe_a_real_model_answers_in_words(seed):
    model = llm(checkpoint("smollm2-135m"))
    asked = ["The capital of France is", "Two plus two is"]
    return [x["text"] for x in model.generate(asked, greedy(6, ignore_eos=False), use_tqdm=False)]


def judge_a_real_model_answers_in_words(seed, got):
    truth(got[0].startswith(" Paris"), "the capital of France", got)
    equal(len(got), 2, "answers")
