"""Every option of the command line, with its default and what it takes."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from minisgl.kvcache import SUPPORTED_CACHE_MANAGER

DTYPES = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32")}


def _number(text: str, kind: type, least: float, most: float) -> Any:
    try:
        value = kind(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        what = "a whole number" if kind is int else "a number"
        bounds = f"of at least {least}" if most == float("inf") else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{text!r} is not {what} {bounds}")
    return value


def _whole(least: int, most: float = float("inf")) -> Callable[[str], Any]:
    return partial(_number, kind=int, least=least, most=most)


def _real(least: float, most: float) -> Callable[[str], Any]:
    return partial(_number, kind=float, least=least, most=most)


def _only(value: str, later: str) -> Callable[[str], str]:
    """An option of which only one value works so far."""

    def check(text: str) -> str:
        if text != value:
            raise argparse.ArgumentTypeError(f"{text!r} {later}; use {value}")
        return value

    return check


def _key(text: str) -> str:
    if text != text.strip() or not text.isprintable():
        # not repeated, since it is a secret
        raise argparse.ArgumentTypeError(
            "a key can't begin or end with a space or a new line, or hold control characters"
        )
    return text


class _Refused(argparse.Action):
    """A switch that has nothing to switch yet."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        parser.error(f"argument {option}: {self.help}")


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m minisgl`."""
    width = min(100, shutil.get_terminal_size(fallback=(102, 24)).columns - 2)
    parser = argparse.ArgumentParser(
        prog="python -m minisgl",
        usage="%(prog)s [--model MODEL] [options]",
        description="Serves a model to OpenAI clients, or chats with it in this terminal.",
        formatter_class=partial(argparse.HelpFormatter, max_help_position=36, width=width),
    )
    _add_model(parser.add_argument_group("model"))
    _add_scheduling(parser.add_argument_group("memory and scheduling"))
    _add_service(parser.add_argument_group("service"))
    return parser


def _add_model(group: Any) -> None:
    add = group.add_argument
    default = "smollm2-135m"
    text = f"a folder, the name of one in models/, or a hub name; default {default}"
    add("--model-path", "--model", default=default, metavar="MODEL", help=text)
    text = "where a name is looked up; only huggingface works"
    source = _only("huggingface", "is not supported")
    add("--model-source", type=source, default="huggingface", metavar="SOURCE", help=text)
    text = "auto: float32 on a CPU, bfloat16 on a GPU"
    add("--dtype", choices=["auto", *DTYPES], default="auto", help=text)
    add("--dummy-weight", action="store_true", help="random weights, for measurements")
    text = "tokens that prompt and output may have together, if fewer than the model's"
    add("--max-seq-len-override", type=_whole(2), metavar="N", help=text)
    text = "a backend's name, or two: prefill,decode; default auto"
    add("--attention-backend", "--attn", default="auto", metavar="NAME", help=text)
    moe = _only("auto", "needs mixtures of experts, which chapter 20 adds")
    add("--moe-backend", type=moe, default="auto", metavar="NAME", help="only auto works so far")
    ranks = _only("1", "needs tensor parallelism, which chapter 16 adds")
    text = "GPUs that share the model; only 1 works so far"
    add(
        "--tensor-parallel-size",
        "--tp-size",
        type=lambda text: int(ranks(text)),
        default=1,
        metavar="N",
        help=text,
    )
    text = "there is no PyNCCL to disable before chapter 16; leave it out"
    add("--disable-pynccl", action=_Refused, nargs=0, help=text)
    graphs = _only("0", "needs CUDA Graph, which chapter 18 adds")
    text = "largest batch that is replayed as a graph; only 0 works so far"
    add(
        "--cuda-graph-max-bs",
        "--graph",
        type=lambda text: int(graphs(text)),
        default=0,
        metavar="N",
        help=text,
    )


def _add_scheduling(group: Any) -> None:
    add = group.add_argument
    text = "requests that run at once; default %(default)s"
    add("--max-running-requests", type=_whole(1), default=256, metavar="N", help=text)
    text = "share of the device's memory for weights and cache; default %(default)s"
    add("--memory-ratio", type=_real(0.01, 1), default=0.9, metavar="X", help=text)
    text = "pages of the cache, in place of what the memory would give"
    add("--num-pages", type=_whole(1), metavar="N", help=text)
    text = "tokens of a page; default %(default)s"
    add("--page-size", type=_whole(1), default=1, metavar="N", help=text)
    text = "tokens that one prefill batch computes at most; default 256 on a CPU, 8192 on a GPU"
    name = ("--max-prefill-length", "--max-extend-length")
    add(*name, type=_whole(1), metavar="N", help=text)
    text = "how requests share equal prefixes; default radix"
    names = SUPPORTED_CACHE_MANAGER.supported_names()
    add("--cache-type", choices=names, default="radix", help=text)


def _add_service(group: Any) -> None:
    add = group.add_argument
    add("--host", default="127.0.0.1", help="address to listen at; default %(default)s")
    text = "port to listen at; 0 takes a free one; default %(default)s"
    add("--port", type=_whole(0, 65535), default=1919, help=text)
    text = "processes that only tokenize; 0: the detokenizer does it too"
    name = ("--num-tokenizer", "--tokenizer-count")
    add(*name, type=_whole(0, 64), default=0, metavar="N", help=text)
    text = "what clients must send as a bearer token; default: $MINISGL_API_KEY, or none"
    key = os.environ.get("MINISGL_API_KEY", "")
    add("--api-key", type=_key, default=key, metavar="KEY", help=text)
    text = "bytes of a request's body at most; default 4 MiB"
    add("--max-body-bytes", type=_whole(1024), default=4 << 20, metavar="N", help=text)
    text = "requests that may wait for their first token; more get 429; default %(default)s"
    add("--max-waiting", type=_whole(1), default=1024, metavar="N", help=text)
    seconds = _real(0.1, 1e6)
    for option, default, text in (
        ("--request-timeout", 30.0, "for a whole request to arrive"),
        ("--first-token-timeout", 600.0, "for an answer to begin"),
        ("--send-timeout", 60.0, "for a client to take what is sent"),
        ("--shutdown-grace", 10.0, "for running requests when the server is told to stop"),
    ):
        text = f"seconds {text}; default {default:g}"
        add(option, type=seconds, default=default, metavar="S", help=text)
    text = "chat in this terminal instead of serving"
    add("--shell-mode", action="store_true", help=text)
