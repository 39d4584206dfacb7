"""Chapter 11: who may call generate when, with what prompts, and what an interruption leaves."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import torch

from pairs import checkpoint, equal, error_of, refused, truth

ASKED = [[5, 6, 7], [8, 9], [3, 1, 4, 1, 5, 9], [2, 6, 5, 3]]


def llm(model: str = "tiny-qwen3", **settings: Any) -> Any:
    """An LLM in float32 with room for 256 tokens."""
    from minisgl.llm import LLM

    pages = 256 // settings.get("page_size", 1)
    fixed = {"dtype": torch.float32, "num_page_override": pages, "max_running_req": 4}
    return LLM(checkpoint(model), **{**fixed, **settings})


def params(max_tokens: int = 6, **more: Any) -> Any:
    from minisgl.core import SamplingParams

    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, **more)


def quiet(model: Any, asked: Any = ASKED, how: Any = None) -> list[list[int]]:
    outputs = model.generate(asked, how or params(), use_tqdm=False)
    return [output["token_ids"] for output in outputs]


def together(*actions: Callable[[], Any]) -> list[Any]:
    """What the actions return, or their errors in words, each run in a thread of its own."""
    found: list[Any] = [None] * len(actions)
    gate = threading.Barrier(len(actions))

    def work(i: int) -> None:
        gate.wait()
        try:
            found[i] = actions[i]()
        except BaseException as error:
            found[i] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def probe_calls_from_three_threads_wait_for_each_other(seed):
    model = llm()
    asked = [ASKED, ASKED[::-1], ASKED[1:3]]
    alone = [quiet(model, prompts) for prompts in asked]
    found = together(*(lambda p=p: quiet(model, p) for p in asked))
    model.cache_manager.check_integrity()
    return [found, alone, model.table_manager.available_size]


def judge_calls_from_three_threads_wait_for_each_other(seed, got):
    equal(got[0], got[1], "tokens of three calls at once, and one after another")
    equal(got[2], 4, "free rows")


def probe_two_llms_in_two_threads_wait_for_each_other(seed):
    models = [llm(), llm("tiny-llama3", page_size=4)]
    alone = [quiet(model) for model in models]
    found = together(*(lambda m=m: [quiet(m) for _ in range(3)] for m in models))
    return [found, alone]


def judge_two_llms_in_two_threads_wait_for_each_other(seed, got):
    found, alone = got
    truth(alone[0] != alone[1], "the models differ", alone)
    equal(found, [[tokens] * 3 for tokens in alone], "tokens of two LLMs at once, and alone")


def interrupted(model: Any, where: Any, name: str, kind: type[BaseException]) -> str | None:
    """What a call raises while where.name raises kind."""
    with mock.patch.object(where, name, side_effect=kind("stop")):
        try:
            quiet(model)
        except BaseException as error:
            return type(error).__name__
    return None


def probe_a_call_may_end_anywhere_and_the_next_is_whole(seed):
    from minisgl.llm import llm as module

    model, found = llm(), []
    want = quiet(model)
    places = ((module, "tqdm"), (model, "offline_receive_msg"), (model, "_schedule_next_batch"),
              (model, "offline_send_result"))  # fmt: skip
    for place in places:
        for kind in (KeyboardInterrupt, RuntimeError):
            raised = interrupted(model, *place, kind)
            found.append([raised == kind.__name__, quiet(model) == want])
            model.cache_manager.check_integrity()
    return [found, model.table_manager.available_size]


def judge_a_call_may_end_anywhere_and_the_next_is_whole(seed, got):
    equal(got[0], [[True, True]] * 8, "interrupted; and the next call's tokens are right")
    equal(got[1], 4, "free rows")


def probe_a_clearing_that_fails_is_done_again(seed):
    model, found = llm(), []
    want = quiet(model)
    for broken in ("CacheManager", "TableManager", "set_global_ctx"):
        from minisgl.scheduler import scheduler as module

        interrupted(model, model, "_forward", RuntimeError)
        raised = interrupted(model, module, broken, KeyboardInterrupt)
        found.append([raised, quiet(model) == want])
    return found


def judge_a_clearing_that_fails_is_done_again(seed, got):
    equal(got, [["KeyboardInterrupt", True]] * 3, "raised while clearing; the next call is right")


def probe_clearing_uses_the_context_of_its_own_engine(seed):
    first, second = llm(), llm(page_size=16)
    interrupted(first, first, "_forward", RuntimeError)
    quiet(second, ASKED[:1], params(1))
    tokens = quiet(first)
    return [first.cache_manager.prefix_cache.page_size, tokens, quiet(second)]


def judge_clearing_uses_the_context_of_its_own_engine(seed, got):
    equal(got[0], 1, "page size of the first LLM's cache, while the second's is 16")
    equal(got[1], got[2], "tokens of both")


def probe_what_is_refused_leaves_an_unfinished_call_to_be_cleared(seed):
    model = llm()
    want = quiet(model)
    interrupted(model, model, "_process_last_data", RuntimeError)
    error = error_of(lambda: quiet(model, [[]]))
    return [error, quiet(model), want]


def judge_what_is_refused_leaves_an_unfinished_call_to_be_cleared(seed, got):
    refused(got[0], "an empty prompt", "prompt 0", "empty", kind="ValueError")
    equal(got[1], got[2], "tokens of the call after it")


def probe_after_shutdown_generate_is_refused(seed):
    model, other = llm(), llm()
    want = quiet(model)
    parts = (model.token_pool, model.engine.ctx.page_table, model.cache_manager)
    held = [weakref.ref(part) for part in parts]
    del parts
    errors = [error_of(model.shutdown), error_of(model.shutdown)]
    gc.collect()
    calls = [error_of(lambda: quiet(model)), error_of(lambda: quiet(model, []))]
    return [errors, [ref() is None for ref in held], calls, quiet(other) == want]


def judge_after_shutdown_generate_is_refused(seed, got):
    equal(got[0], [None, None], "errors of two shutdowns")
    equal(got[1], [True] * 3, "token pool, page table and cache manager are gone")
    for error in got[2]:
        refused(error, "a call after shutdown", "shut down", "new one", kind="RuntimeError")
    equal(got[3], True, "another LLM goes on")


def probe_prompts_may_come_in_any_iterable_and_as_arrays(seed):
    model, [a, b] = llm(), ASKED[:2]
    given = (
        (x for x in (a, b)),
        (tuple(a), tuple(b)),
        iter([torch.tensor(a), torch.tensor(b, dtype=torch.int32)]),
        [np.array(a), np.array(b, dtype=np.int16)],
        deque([a, b]),
        torch.tensor([a[:2], b]),
    )
    found = [quiet(model, asked) for asked in given]
    return [found[:5], quiet(model, [a, b]), found[5], quiet(model, [a[:2], b])]


def judge_prompts_may_come_in_any_iterable_and_as_arrays(seed, got):
    equal(got[0], [got[1]] * 5, "tokens for two prompts in other forms, and for lists")
    equal(got[2], got[3], "tokens for the rows of a tensor, and for lists")


def probe_what_holds_no_ids_is_refused(seed):
    model, good = llm(), ASKED[0]
    bad = ({5: 1, 6: 2}, {5, 6}, b"\x05\x06", [5, True], [5, 6.0], [5, None], ["5"], None, [[5]],
           torch.tensor([[5, 6]]), torch.tensor([5.0]), torch.tensor([True]), np.array([5.5]),
           torch.tensor(5))  # fmt: skip
    return [error_of(lambda p=p: quiet(model, [good, p])) for p in bad]


def judge_what_holds_no_ids_is_refused(seed, got):
    equal(len(got), 14, "inputs")
    for i, error in enumerate(got):
        refused(error, f"input {i}", "prompt 1", "neither text nor", kind="ValueError")


def probe_special_tokens_are_part_of_the_text(seed):
    model = llm()
    end = model.tokenizer.eos_token_id
    script = iter([7, end, 8])
    model.engine.sampler.sample = lambda logits, args: torch.tensor([next(script)])
    [output] = model.generate([[1, 2]], params(3), use_tqdm=False)
    return [output["token_ids"], end, output["text"], model.tokenizer.eos_token]


def judge_special_tokens_are_part_of_the_text(seed, got):
    tokens, end, text, name = got
    equal(tokens, [7, end, 8], "tokens when end ids are ignored")
    truth(bool(name) and name in text, "the text names the end token", text)


def probe_unseeded_calls_draw_anew(seed):
    model = llm()
    warm = params(12, temperature=1.0)
    return [quiet(model, ASKED, warm) for _ in range(2)]


def judge_unseeded_calls_draw_anew(seed, got):
    equal([len(x) for x in got[0]], [12] * 4, "tokens of each answer")
    truth(got[0] != got[1], "two calls of equal prompts give other tokens", got[0])
