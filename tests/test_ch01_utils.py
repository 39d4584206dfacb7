"""Chapter 01: logger, registry, arithmetic, dtype and profiler helpers, and the rank."""

from __future__ import annotations

import io
import logging
import os
import re
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch

from pairs import equal, error_of, refused, truth


class Terminal(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal


def logged(name, *args, terminal=False, log=None, **kwargs):
    """Probe side: what a new logger writes to stderr."""
    from minisgl.utils import init_logger

    stream = Terminal(terminal)
    with patch.object(sys, "stderr", stream):
        logger = init_logger(name, *args, **kwargs)
        (log or (lambda logger: logger.info("%d pages", 7)))(logger)
    return stream.getvalue()


STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


def probe_a_log_line_says_when_where_and_what(seed):
    return {
        "plain": logged("t1.book.engine"),
        "whole name": logged("t1.book.scheduler", strip_file=False),
        "suffix": logged("t1.book.core", "worker 2"),
        "pid": [logged("t1.book.pid", use_pid=True), os.getpid()],
        "rank": logged("t1.book.rank", use_tp_rank=True),
        "all": logged("t1.book.all", "w", use_pid=True, use_tp_rank=True),
    }


def judge_a_log_line_says_when_where_and_what(seed, got):
    pid = got["pid"][1]
    lines = {**got, "pid": got["pid"][0]}
    heads = {
        "plain": ("", "engine"),
        "whole name": ("", "t1.book.scheduler"),
        "suffix": (r"\|worker 2", "core"),
        "pid": (rf"\|pid {pid}", "pid"),
        "rank": (r"\|rank 0", "rank"),
        "all": (rf"\|w\|rank 0\|pid {pid}", "all"),
    }
    for name, (labels, shown) in heads.items():
        pattern = rf"\[{STAMP}{labels}\] INFO {re.escape(shown)}: 7 pages\n"
        truth(re.fullmatch(pattern, lines[name]) is not None, f"line of {name}", lines[name])


def probe_levels_are_colored_in_a_terminal_only(seed):
    def warn(logger):
        logger.info("a")
        logger.warning("b")
        logger.error("c")

    return [logged("t1.color", terminal=True, log=warn), logged("t1.gray", log=warn)]


def judge_levels_are_colored_in_a_terminal_only(seed, got):
    levels = [re.findall(r"\] (\S+) ", text) for text in got]
    equal(levels[0], ["INFO", "\x1b[33mWARNING\x1b[0m", "\x1b[31mERROR\x1b[0m"], "in a terminal")
    equal(levels[1], ["INFO", "WARNING", "ERROR"], "elsewhere")


def probe_a_logged_exception_shows_its_trace(seed):
    def fail(logger):
        try:
            raise KeyError("page 9")
        except KeyError:
            logger.exception("it broke")

    return logged("t1.trace", log=fail).splitlines()


def judge_a_logged_exception_shows_its_trace(seed, got):
    truth(got[0].endswith("ERROR trace: it broke"), "first line", got[0])
    equal(got[1], "Traceback (most recent call last):", "second line")
    equal(got[-1], "KeyError: 'page 9'", "last line")


def probe_a_second_call_returns_the_same_logger(seed):
    from minisgl.utils import init_logger

    def again(logger):
        same = init_logger("t1.twice") is logger
        other = init_logger("t1.twice", "b") is logger
        logger.info("once %s %s", same, other)

    return [
        logged("t1.twice", log=again),
        len(logging.getLogger("t1.twice").handlers),
        logging.getLogger("t1.twice").propagate,
    ]


def judge_a_second_call_returns_the_same_logger(seed, got):
    truth(got[0].endswith("once True False\n"), "same logger, and another for a suffix", got[0])
    equal(got[0].count("\n"), 1, "lines for one message")
    equal(got[1:], [1, False], "handlers, and whether it also goes to the root logger")


def probe_the_level_is_the_callers_or_the_settings(seed):
    from minisgl.env import ENV
    from minisgl.utils import init_logger

    levels = [init_logger("t1.level.a").level, init_logger("t1.level.b", level="debug").level]
    with patch.object(ENV.LOG_LEVEL, "value", "ERROR"):
        levels += [init_logger("t1.level.c").level, init_logger("t1.level.d", level="INFO").level]
    return levels


def judge_the_level_is_the_callers_or_the_settings(seed, got):
    want = [logging.INFO, logging.DEBUG, logging.ERROR, logging.INFO]
    equal(got, want, "levels: default, asked for, from the setting, asked for against it")


def probe_a_registry_hands_out_what_was_registered_by_name(seed):
    from minisgl.utils import Registry

    table = Registry("backend")

    @table.register("torch")
    def make():
        return 5

    table.register("other")(7)
    return {
        "made": [table["torch"](), make(), table["other"]],
        "names": table.supported_names(),
        "supported": [
            error_of(lambda n=n: table.assert_supported(n))
            for n in ("torch", ["torch", "other"], [])
        ],
    }


def judge_a_registry_hands_out_what_was_registered_by_name(seed, got):
    equal(got["made"], [5, 5, 7], "entries; the decorator leaves the function as it is")
    equal(got["names"], ["torch", "other"], "names in order")
    equal(got["supported"], [None, None, None], "errors for names that are there")


def probe_a_registry_refuses_unknown_names_and_second_owners(seed):
    from minisgl.utils import Registry

    table, empty = Registry("backend"), Registry("cache")
    table.register("torch")(5)
    table.register("other")(6)
    return {
        "unknown": error_of(lambda: table["trition"]),
        "among": error_of(lambda: table.assert_supported(["torch", "fa9"])),
        "empty": error_of(lambda: empty["naive"]),
        "twice": error_of(lambda: table.register("torch")),
        "kept": table["torch"],
    }


def judge_a_registry_refuses_unknown_names_and_second_owners(seed, got):
    what = "an unknown name"
    refused(got["unknown"], what, "backend", "trition", "torch, other", kind="ValueError")
    refused(got["among"], "one unknown name among others", "'fa9'", kind="ValueError")
    refused(got["empty"], "a name in an empty table", "cache", "naive", "none", kind="ValueError")
    refused(got["twice"], "a name with an owner", "backend", "torch", "twice", kind="KeyError")
    equal(got["kept"], 5, "the first owner's entry")


def probe_rounding_to_parts_and_multiples(seed):
    from minisgl.utils import align_ceil, align_down, div_ceil, div_even

    pairs = [(0, 4), (1, 4), (4, 4), (5, 4), (8, 4)]
    table = [[div_ceil(a, b), align_ceil(a, b), align_down(a, b)] for a, b in pairs]
    even = [div_even(12, 4), div_even(4, 4), div_even(0, 4)]
    shared = [div_even(a, b, allow_replicate=True) for a, b in ((8, 4), (4, 4), (2, 4), (1, 4))]
    return {"table": table, "even": even, "shared": shared}


def judge_rounding_to_parts_and_multiples(seed, got):
    want = [[0, 0, 0], [1, 4, 0], [1, 4, 4], [2, 8, 4], [2, 8, 8]]
    equal(got["table"], want, "div_ceil, align_ceil and align_down of 0, 1, 4, 5, 8 by 4")
    equal(got["even"], [3, 1, 0], "div_even of 12, 4, 0 by 4")
    equal(got["shared"], [2, 1, 1, 1], "div_even with sharing of 8, 4, 2, 1 by 4")


def probe_uneven_divisions_are_refused_with_both_numbers(seed):
    from minisgl.utils import div_even

    return [
        error_of(lambda: div_even(9, 2)),
        error_of(lambda: div_even(2, 4)),
        error_of(lambda: div_even(3, 4, allow_replicate=True)),
        error_of(lambda: div_even(6, 4, allow_replicate=True)),
    ]


def judge_uneven_divisions_are_refused_with_both_numbers(seed, got):
    cases = (("9", "2"), ("2", "4"), ("3", "4"), ("6", "4"))
    for numbers, error in zip(cases, got, strict=True):
        refused(error, f"{numbers[0]} by {numbers[1]}", *numbers, kind="AssertionError")


def probe_a_script_runs_its_decorated_function_at_once(seed):
    from minisgl.utils import call_if_main

    calls = []

    def note():
        calls.append(len(calls))

    script = call_if_main("__main__")(note)
    kept = call_if_main("__main__", discard=False)(note)
    calls_as_script = len(calls)
    imported = call_if_main("some.module")(note)
    dropped = call_if_main("some.module", discard=True)(note)
    default = call_if_main()(note)
    return {
        "calls": [calls_as_script, len(calls)],
        "names": [script is None, kept is note, imported is note, dropped is None, default is None],
    }


def judge_a_script_runs_its_decorated_function_at_once(seed, got):
    equal(got["calls"], [2, 3], "calls after two as a script, then two imported and a default")
    equal(got["names"], [True] * 5, "what the name stands for afterwards")


def probe_unset_is_a_value_apart_from_none(seed):
    from minisgl.utils import UNSET, Unset

    return [isinstance(UNSET, Unset), UNSET is None, UNSET is Unset]


def judge_unset_is_a_value_apart_from_none(seed, got):
    equal(got, [True, False, False], "UNSET is an Unset, None, Unset")


def probe_tensors_take_the_blocks_dtype_even_when_it_fails(seed):
    from minisgl.utils import torch_dtype

    found = []
    with torch_dtype(torch.bfloat16):
        found.append(str(torch.empty(1).dtype))
        with torch_dtype(torch.float64):
            found.append(str(torch.empty(1).dtype))
        found.append(str(torch.empty(1).dtype))

    def failing():
        with torch_dtype(torch.float16):
            raise RuntimeError

    error_of(failing)
    return [*found, str(torch.empty(1).dtype)]


def judge_tensors_take_the_blocks_dtype_even_when_it_fails(seed, got):
    want = ["bfloat16", "float64", "bfloat16", "float32"]
    equal(got, [f"torch.{name}" for name in want], "dtypes: block, inner, outer again, after")


def probe_annotated_methods_are_ranges_on_cuda_and_unchanged_elsewhere(seed):
    from minisgl.utils import nvtx_annotate

    seen = []

    @contextmanager
    def span(label):
        seen.append(label)
        yield
        seen.append("end")

    class Layer:
        _layer_id = 3

        def run(self, x, *, y):
            """The method's text."""
            seen.append("run")
            return x + y

    with patch.object(torch.cuda, "is_available", lambda: False):
        without = nvtx_annotate("MLP")(Layer.run)
    with (
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "nvtx", SimpleNamespace(range=span)),
    ):
        fixed = nvtx_annotate("MLP")(Layer.run)
        filled = nvtx_annotate("Layer_{}", layer_id_field="_layer_id")(Layer.run)
        results = [fixed(Layer(), 1, y=2), filled(Layer(), 3, y=4)]
    return {
        "seen": seen,
        "results": results,
        "unchanged": without is Layer.run,
        "doc": [fixed.__name__, fixed.__doc__],
    }


def judge_annotated_methods_are_ranges_on_cuda_and_unchanged_elsewhere(seed, got):
    equal(got["seen"], ["MLP", "run", "end", "Layer_3", "run", "end"], "ranges around calls")
    equal(got["results"], [3, 7], "what the methods return")
    equal(got["unchanged"], True, "whether the method is left as it is without CUDA")
    equal(got["doc"], ["run", "The method's text."], "name and docstring of the wrapped method")


def probe_a_process_is_rank_0_of_1_until_it_is_told_its_rank(seed):
    from minisgl.distributed import info

    with patch.object(info, "_TP_INFO", None):
        silent = info.try_get_tp_info()
        default = info.get_tp_info()
        info.set_tp_info(1, 2)
        info.set_tp_info(1, 2)
        told = [info.get_tp_info(), info.try_get_tp_info()]
        other = error_of(lambda: info.set_tp_info(0, 2))
    wrong = [error_of(lambda r=r: info.DistributedInfo(r, 2)) for r in (2, -1)]
    return {
        "silent": silent,
        "default": [default.rank, default.size, default.is_primary()],
        "told": [[i.rank, i.size, i.is_primary()] for i in told],
        "other": other,
        "wrong": wrong,
    }


def judge_a_process_is_rank_0_of_1_until_it_is_told_its_rank(seed, got):
    equal([got["silent"], got["default"]], [None, [0, 1, True]], "before it was told")
    equal(got["told"], [[1, 2, False]] * 2, "after it was told rank 1 of 2, twice")
    refused(got["other"], "another rank", "rank=1, size=2", kind="AssertionError")
    for rank, error in zip((2, -1), got["wrong"], strict=True):
        refused(error, f"rank {rank} of 2", str(rank), "size 2", kind="AssertionError")
