"""Compares an engine's tokens and logits with a reference. Pure: data in, findings out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from steplib.oracle import Reference

NOISE_FACTOR = 10
"""A logit may be off by this many times transformers' own noise."""

RELATIVE = 2e-4
"""In units of the logits' standard deviation: the least allowance for a logit, and how near the
best a token must be to be a near tie. Clean noise was measured as 1e-5 (tiny-qwen3) to 3e-5
(tiny-llama3) and 2e-5 (smollm2-135m) in these units, so 10 x noise is 1e-4 to 3e-4."""

TIES_PER_PROMPT = 1
TIE_SHARE = 0.01  # of all tokens; one near tie is always allowed


@dataclass(frozen=True)
class Call:
    """One call of generate."""

    prompts: list[list[int]]
    max_tokens: int


@dataclass(frozen=True)
class Answer:
    """A Generation as plain data, or the sentence that says why there is none, and the verdict."""

    token_ids: Any = None
    top2: Any = None
    counters: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    verdict: str = "failed"


@dataclass(frozen=True)
class Difference:
    """A failure: what, where (-1: everywhere), expected and got."""

    message: str
    prompt: int = -1
    position: int = -1
    expected: str = ""
    got: str = ""
    verdict: str = "failed"


@dataclass
class Comparison:
    """The result for one model and one config."""

    tokens: int = 0
    near_ties: list[tuple[int, int]] = field(default_factory=list)
    largest: float = 0.0
    allowed: float = 0.0
    counters: dict[str, int] = field(default_factory=dict)
    difference: Difference | None = None


class _Differs(Exception):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__()
        self.difference = Difference(*args, **named)


Generate = Callable[[list[Call]], list[Answer]]


def compare(
    reference: Reference, prompts: Sequence[Sequence[int]], max_tokens: int, generate: Generate
) -> Comparison:
    """Run `generate` on the prompts and follow each to its end, past near ties.

    Stops at the first difference in order of prompts.
    """
    found = Comparison(allowed=max(NOISE_FACTOR * reference.noise, RELATIVE * reference.std))
    try:
        everything = Call([list(prompt) for prompt in prompts], max_tokens)
        [answer] = generate([everything])
        rows = _rows(answer, len(prompts), max_tokens)
        found.counters = dict(answer.counters)
        for number, (tokens, top2) in enumerate(rows):
            tie = _Walk(reference, number, found).follow(tokens, top2, 0)
            _go_on(reference, number, tie, found, prompts, max_tokens, generate)
        _limit_ties(found)
    except _Differs as stopped:
        found.difference = stopped.difference
    return found


def _go_on(
    reference: Reference,
    number: int,
    tie: int | None,
    found: Comparison,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    generate: Generate,
) -> None:
    """After a near tie, run again from the prompt and the reference's tokens up to that one."""
    while tie is not None and tie + 1 < max_tokens:
        start = tie + 1
        prompt = [*prompts[number], *reference.tokens[number][:start]]
        [answer] = generate([Call([prompt], max_tokens - start)])
        [(tokens, top2)] = _rows(answer, 1, max_tokens - start)
        tie = _Walk(reference, number, found).follow(tokens, top2, start)


def _limit_ties(found: Comparison) -> None:
    if len(found.near_ties) > max(1, TIE_SHARE * found.tokens):
        raise _Differs(
            f"{len(found.near_ties)} near ties in {found.tokens} tokens are too many to be chance",
            expected=f"at most {max(1, math.floor(TIE_SHARE * found.tokens))}",
            got=str(len(found.near_ties)),
        )


@dataclass
class _Walk:
    """One prompt's tokens beside the reference's, from some position on."""

    reference: Reference
    number: int
    found: Comparison

    def follow(self, tokens: list[int], top2: list[Any], start: int) -> int | None:
        """The position of the first near tie, or None at the end. Raises _Differs."""
        for position, (token, pair) in enumerate(zip(tokens, top2, strict=True), start):
            want = self.reference.tokens[self.number][position]
            row = self.reference.logits(self.number, position)
            is_tie = token != want and self._is_near_tie(token, want, row, position)
            if token != want and not is_tie:
                self._differ(position, "another token", want, token, row)
            self._check_logits(token, pair, row, position)
            self.found.tokens += 1
            if is_tie:
                return position
        return None

    def _is_near_tie(self, token: int, want: int, row: Sequence[float], position: int) -> bool:
        if not 0 <= token < len(row):
            return False
        if float(row[want]) - float(row[token]) > RELATIVE * self.reference.std:
            return False
        self.found.near_ties.append((self.number, position))
        ties = sum(prompt == self.number for prompt, _ in self.found.near_ties)
        if ties > TIES_PER_PROMPT:
            self._differ(position, f"near tie number {ties} of this prompt", want, token, row)
        return True

    def _check_logits(
        self, token: int, pair: list[tuple[int, float]], row: Sequence[float], position: int
    ) -> None:
        (best, first), (_, second) = pair
        if best != token and first != second or second > first:
            self._differ(position, "a token that isn't the best of its own top 2", best, token, row)
        for identity, logit in pair:
            if not 0 <= identity < len(row):
                self._differ(position, f"a top-2 id that isn't in the vocabulary of {len(row)}",
                             f"0 to {len(row) - 1}", identity, row)  # fmt: skip
            off = abs(logit - float(row[identity]))
            self.found.largest = max(self.found.largest, off)
            if not off <= self.found.allowed:  # NaN is off, too
                allowed = f"off by {off:.2g}, allowed {self.found.allowed:.2g}"
                what = f"another logit for token {identity} ({allowed})"
                want = f"{float(row[identity]):.6g}"
                self._differ(position, what, want, f"{logit:.6g}", row)

    def _differ(
        self, position: int, what: str, want: object, got: object, row: Sequence[float]
    ) -> None:
        first, second = sorted(map(float, row))[-1:-3:-1]
        margin = f"the reference's top-2 margin is {first - second:.3g}"
        spread = f"{(first - second) / self.reference.std:.2g} of its logits' standard deviation"
        raise _Differs(
            f"prompt {self.number}, token {position}: {what}; {margin}, {spread}",
            self.number, position, str(want), str(got),
        )  # fmt: skip


def _rows(answer: Answer, count: int, max_tokens: int) -> list[tuple[list[int], list[Any]]]:
    """Tokens and top-2 pairs of each prompt, once their shapes are right. Raises _Differs."""
    if answer.error is not None:
        raise _Differs(answer.error, verdict=answer.verdict)
    for name, data in (("token_ids", answer.token_ids), ("top2", answer.top2)):
        if len(data) != count:
            raise _Differs(f"generate gave {name} for another number of prompts",
                           expected=str(count), got=str(len(data)))  # fmt: skip
        for number, row in enumerate(data):
            if len(row) != max_tokens:
                raise _Differs(f"prompt {number}: generate gave another number of {name}", number,
                               expected=str(max_tokens), got=str(len(row)))  # fmt: skip
    for number, row in enumerate(answer.top2):
        for position, pair in enumerate(row):
            if len(pair) != 2 or not all(math.isfinite(logit) for _, logit in pair):
                what = f"prompt {number}, token {position}: top2 is no pair of finite logits"
                raise _Differs(what, number, position, "two (id, logit)", str(pair))
    return list(zip(answer.token_ids, answer.top2, strict=True))


def idle_counters(wanted: Sequence[str], runs: Sequence[dict[str, int]]) -> list[str]:
    """One sentence for each wanted counter that stayed at zero, or is missing, in all `runs`."""
    found = []
    for name in wanted:
        known = sorted({key for counters in runs for key in counters})
        if name not in known:
            has = ", ".join(known) or "none"
            found.append(f'the counter "{name}" is not in Generation.counters (there are: {has})')
        elif not any(counters.get(name, 0) > 0 for counters in runs):
            found.append(f'the counter "{name}" stayed at zero, so the feature was never at work')
    return found
