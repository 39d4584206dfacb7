"""The comparison itself, on a reference of a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from steplib import paritycheck
from steplib.outcome import Outcome
from steplib.parity import Answer, Call, Comparison, Generate, compare, idle_counters

PROMPTS = [[1], [2, 3]]
ROWS = [
    [[0.0, 3.0, 1.0], [5.0, 0.0, 1.0], [0.0, 1.0, 2.0]],
    [[0.0, 2.0, 1.0], [2.0, 0.0, 1.0], [1.0, 4.0, 2.0]],
]
TOKENS = [[1, 0, 2], [1, 0, 1]]


class Three:
    """Two prompts, three tokens, a vocabulary of three."""

    tokens: Sequence[Sequence[int]] = TOKENS
    noise = 1e-5
    std = 1.0

    def logits(self, prompt: int, position: int) -> Sequence[float]:
        return ROWS[prompt][position]


def top2(row: list[float]) -> list[tuple[int, float]]:
    best, second = sorted(range(3), key=row.__getitem__)[:-3:-1]
    return [(best, row[best]), (second, row[second])]


def right() -> tuple[list[list[int]], list[list[Any]]]:
    return [list(row) for row in TOKENS], [[top2(row) for row in rows] for rows in ROWS]


def compared(tokens: Any, pairs: Any, *more: Answer) -> Comparison:
    answers = iter([Answer(tokens, pairs, {"steps": 3}), *more])
    return compare(Three(), PROMPTS, 3, lambda calls: [next(answers) for _ in calls])


def test_right_answers_agree() -> None:
    found = compared(*right())
    assert found.difference is None
    assert (found.tokens, found.near_ties, found.counters) == (6, [], {"steps": 3})


def test_allowance_is_ten_times_noise_but_never_tiny() -> None:
    reference = Three()
    assert compared(*right()).allowed == pytest.approx(2e-4)
    reference.noise = 1e-4
    everything = Answer(*right())
    assert compare(reference, PROMPTS, 3, lambda _: [everything]).allowed == pytest.approx(1e-3)


@pytest.mark.parametrize(("off", "is_wrong"), [(1.5e-4, False), (-1.5e-4, False), (3e-4, True)])
@pytest.mark.parametrize("place", [0, 1])
def test_a_logit_may_be_off_by_the_allowance(off: float, is_wrong: bool, place: int) -> None:
    tokens, pairs = right()
    identity, logit = pairs[1][2][place]
    pairs[1][2][place] = (identity, logit + off)
    found = compared(tokens, pairs).difference
    assert (found is not None) is is_wrong
    assert found is None or (found.prompt, found.position) == (1, 2)


def test_the_first_difference_in_order_of_prompts_is_told() -> None:
    tokens, pairs = right()
    tokens[1][0], tokens[0][2] = 2, 1
    pairs[1][0].reverse()
    pairs[0][2].reverse()
    found = compared(tokens, pairs).difference
    assert found is not None
    assert (found.prompt, found.position, found.expected, found.got) == (0, 2, "2", "1")
    assert "the reference's top-2 margin is 1," in found.message


def test_a_second_best_that_the_reference_ranks_lower_is_off() -> None:
    tokens, pairs = right()
    pairs[0][0][1] = (0, 1.0)
    found = compared(tokens, pairs).difference
    assert found is not None and "token 0 " in found.message


@pytest.mark.parametrize(
    ("tokens", "pairs", "says"),
    [
        ([[1, 0, 2]], None, "another number of prompts"),
        ([[1, 0], [1, 0, 1]], None, "another number of token_ids"),
        (None, [[top2(row) for row in rows][:2] for rows in ROWS], "another number of top2"),
        (None, [[[(1, 3.0)]] * 3] * 2, "no pair of finite logits"),
        (None, [[[(1, float("nan")), (2, 1.0)]] * 3] * 2, "no pair of finite logits"),
        (None, [[[(1, float("inf")), (2, 1.0)]] * 3] * 2, "no pair of finite logits"),
        (None, [[[(7, 3.0), (2, 1.0)]] * 3] * 2, "isn't the best of its own top 2"),
        (None, [[[(1, 3.0), (7, 1.0)]] * 3] * 2, "isn't in the vocabulary of 3"),
        ([[9, 0, 2], [1, 0, 1]], None, "another token"),
        ([[-1, 0, 2], [1, 0, 1]], None, "another token"),
    ],
)
def test_data_of_the_wrong_shape_is_a_failure(tokens: Any, pairs: Any, says: str) -> None:
    found = compared(tokens or right()[0], pairs or right()[1]).difference
    assert found is not None and says in found.message


def test_an_engine_that_gave_no_answer_is_a_failure() -> None:
    found = compare(Three(), PROMPTS, 3, lambda _: [Answer(error="generate: timed out")])
    assert found.difference is not None and found.difference.message == "generate: timed out"


class Tied(Three):
    """Tokens 1 and 2 of prompt 0 are near ties, within 2e-4."""

    def logits(self, prompt: int, position: int) -> Sequence[float]:
        row = list(ROWS[prompt][position])
        if prompt == 0 and position < 2:
            second = [2, 2][position]
            row[second] = max(row) - 1e-4
        return row


def other(position: int) -> list[tuple[int, float]]:
    """The pair of an engine that takes the other token of the tie."""
    row = list(Tied().logits(0, position))
    (best, first), (second, near) = top2(row)
    return [(second, near + 1.1e-4), (best, first)]


def rerun(calls: list[list[Call]], *answers: Answer) -> Generate:
    waiting = iter(answers)

    def generate(asked: list[Call]) -> list[Answer]:
        calls.append(asked)
        return [next(waiting)]

    return generate


def test_after_a_near_tie_the_engine_runs_again_from_the_references_tokens() -> None:
    tokens, pairs = right()
    tokens[0], pairs[0] = [2, 2, 2], [other(0), pairs[0][1], pairs[0][2]]
    again = Answer([[0, 2]], [[top2(list(Tied().logits(0, t))) for t in (1, 2)]])
    calls: list[list[Call]] = []
    found = compare(Tied(), PROMPTS, 3, rerun(calls, Answer(tokens, pairs), again))
    assert found.difference is None
    assert (found.near_ties, found.tokens) == ([(0, 0)], 6)
    assert calls[1] == [Call([[1, 1]], 2)]


def test_a_near_tie_at_the_last_token_needs_no_second_run() -> None:
    class Last(Three):
        def logits(self, prompt: int, position: int) -> Sequence[float]:
            row = list(ROWS[prompt][position])
            return [row[0], 2.0 - 1e-4, 2.0] if (prompt, position) == (0, 2) else row

    tokens, pairs = right()
    tokens[0][2], pairs[0][2] = 1, [(1, 2.00001), (2, 2.0)]
    calls: list[list[Call]] = []
    found = compare(Last(), PROMPTS, 3, rerun(calls, Answer(tokens, pairs)))
    assert (found.difference, found.near_ties, len(calls)) == (None, [(0, 2)], 1)


def test_two_near_ties_in_one_prompt_fail() -> None:
    tokens, pairs = right()
    tokens[0], pairs[0] = [2, 2, 2], [other(0), pairs[0][1], pairs[0][2]]
    again = Answer([[2, 2]], [[other(1), pairs[0][2]]])
    found = compare(Tied(), PROMPTS, 3, rerun([], Answer(tokens, pairs), again)).difference
    assert found is not None and "near tie number 2 of this prompt" in found.message


def test_a_tie_with_wrong_logits_is_no_excuse() -> None:
    tokens, pairs = right()
    wrong = other(0)
    wrong[0] = (wrong[0][0], wrong[0][1] + 0.1)
    tokens[0], pairs[0] = [2, 2, 2], [wrong, pairs[0][1], pairs[0][2]]
    found = compare(Tied(), PROMPTS, 3, rerun([], Answer(tokens, pairs))).difference
    assert found is not None and "another logit for token 2" in found.message


def test_counters_must_be_above_zero_in_some_run() -> None:
    runs = [{"cached_tokens": 0, "chunks": 0}, {"cached_tokens": 5, "chunks": 0}]
    assert idle_counters(["cached_tokens"], runs) == []
    [zero] = idle_counters(["chunks"], runs)
    assert '"chunks" stayed at zero' in zero
    [missing] = idle_counters(["ranks"], runs)
    assert '"ranks" is not in Generation.counters (there are: cached_tokens, chunks)' in missing


@pytest.mark.parametrize("ending", ["crashed", "timed out", "no record"])
def test_answers_of_a_child_that_left_by_itself_count_for_nothing(ending: Any) -> None:
    given = {"kind": "generation", "index": 0, "token_ids": [[1]], "top2": [], "counters": {}}
    assert paritycheck._answer(Outcome("done", "", [given]), 0).token_ids == [[1]]
    left = paritycheck._answer(Outcome(ending, "it left with 3", [given]), 0)
    assert (left.verdict, "it left with 3" in str(left.error)) == (ending, True)
