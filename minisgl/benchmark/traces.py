"""Recorded traffic of real services: when each request came, and how long it and its answer were.

Both public formats leave the text out. What they keep of it is hash_ids: one number for each block
of the prompt, equal where two prompts begin with the same blocks. The words of a block are drawn
from its number, so the prompts made up here share what the real ones shared.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .prompts import draw_words, generate_prompt, join_words

QWEN_BLOCK, MOONCAKE_BLOCK = 16, 512
"""Prompt tokens that one of the hash_ids stands for."""


@dataclass(frozen=True)
class BenchmarkTrace:
    """One request to come: timestamp is in seconds, of any clock that the whole trace shares."""

    timestamp: float
    message: str
    output_length: int
    input_length: int | None = None


def read_qwen_trace(
    file_path: str, tokenizer: Any, n: int | None = None, dummy: bool = False
) -> list[BenchmarkTrace]:
    """Return the first n requests of a Qwen-Bailian usage trace: JSON lines, times in seconds.

    dummy: leave hash_ids out, so that no two prompts begin alike. Raises ValueError, with the
    number of the line, for what is no request.
    """
    return _read(file_path, tokenizer, n, dummy, QWEN_BLOCK, units_per_second=1)


def read_mooncake_trace(
    file_path: str, tokenizer: Any, n: int | None = None, dummy: bool = False
) -> list[BenchmarkTrace]:
    """Return the first n requests of a Mooncake trace: JSON lines, times in milliseconds.

    dummy and errors: as for read_qwen_trace.
    """
    return _read(file_path, tokenizer, n, dummy, MOONCAKE_BLOCK, units_per_second=1000)


def scale_traces(traces: Sequence[BenchmarkTrace], scale: float) -> list[BenchmarkTrace]:
    """Return the requests in order of time, from 0 on, with all gaps times scale.

    A scale of 0.5 makes twice the load. ValueError when it is negative or not finite.
    """
    if not 0 <= scale < float("inf"):
        raise ValueError(f"the scale of a trace is a finite number of 0 or more, not {scale}")
    ordered = sorted(traces, key=lambda trace: trace.timestamp)
    first = ordered[0].timestamp if ordered else 0.0
    return [replace(one, timestamp=(one.timestamp - first) * scale) for one in ordered]


def _read(
    path: str, tokenizer: Any, n: int | None, dummy: bool, block: int, units_per_second: int
) -> list[BenchmarkTrace]:
    traces = []
    rng = random.Random(0)
    for where, line in _lines(path, n):
        time, length, wanted, hashes = _fields(where, line)
        if dummy:
            message = generate_prompt(tokenizer, length, rng)
        else:
            message = _prompt(tokenizer, length, hashes, block, rng)
        traces.append(BenchmarkTrace(time / units_per_second, message, wanted, length))
    return traces


def _lines(path: str, n: int | None) -> Iterator[tuple[str, str]]:
    """The first n lines that are not blank, each with its place."""
    given = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if given == n:
                return
            if line.strip():
                given += 1
                yield f"{path}, line {number}", line


def _fields(where: str, line: str) -> tuple[float, int, int, list[int]]:
    """The line's timestamp, input_length, output_length and hash_ids."""
    try:
        entry = json.loads(line)
    except ValueError:
        raise ValueError(f"{where}: this is not JSON") from None
    if not isinstance(entry, dict):
        raise ValueError(f"{where}: a request is a JSON object")
    time, hashes = entry.get("timestamp"), entry.get("hash_ids", [])
    if isinstance(time, bool) or not isinstance(time, int | float) or not abs(time) < float("inf"):
        raise ValueError(f"{where}: timestamp must be a number, not {time!r}")
    if not isinstance(hashes, list) or any(type(number) is not int for number in hashes):
        raise ValueError(f"{where}: hash_ids must be a list of whole numbers")
    return (
        time,
        _length(where, entry, "input_length"),
        _length(where, entry, "output_length"),
        hashes,
    )


def _length(where: str, entry: dict[str, Any], name: str) -> int:
    length = entry.get(name)
    if type(length) is not int or length < 1:
        raise ValueError(f"{where}: {name} must be a whole number above 0, not {length!r}")
    return length


def _prompt(tokenizer: Any, length: int, hashes: list[int], block: int, rng: random.Random) -> str:
    """Words of each block by its number, and fresh ones where the numbers don't reach."""
    words: list[str] = []
    for number in hashes[: -(-length // block)]:
        words += draw_words(tokenizer, block, random.Random(number))
    words = words[:length]
    return join_words(tokenizer, words + draw_words(tokenizer, length - len(words), rng))
