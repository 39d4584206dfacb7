"""Chapter 15: a stop string ends an answer, and no letter of it or behind it is ever shown."""

from __future__ import annotations

import numpy as np

from pairs import equal, public_bug, truth


def shown(stops: list[str], pieces: list[str], ends: bool = True) -> list:
    """What is shown after each piece, and whether a stop string was met by then."""
    from minisgl.server.stop import StopChecker

    checker = StopChecker(stops)
    last = len(pieces) - 1
    return [list(checker.push(piece, ends and i == last)) for i, piece in enumerate(pieces)]


@public_bug("B81")
def probe_a_stop_string_across_tokens_does_not_leak(seed):
    return [shown(["b,c"], list("a,b,c")), shown(["b,c"], list("a,bx"))]


def judge_a_stop_string_across_tokens_does_not_leak(seed, got):
    met, kept = got
    want = [["a", False], [",", False], ["", False], ["", False], ["", True]]
    equal(met, want, "tokens a , b , c")
    equal(kept, [["a", False], [",", False], ["", False], ["bx", False]], "tokens a , b x")


def probe_only_what_may_begin_a_stop_is_held_back(seed):
    return [
        shown(["END"], ["one E", "two EN", "N", "DE"], ends=False),
        shown(["aab"], list("aaab"), ends=False),
        shown(["ab", "bcd"], ["xab"], ends=False),
        shown([], ["a", "b"], ends=False),
    ]


def judge_only_what_may_begin_a_stop_is_held_back(seed, got):
    words, borders, two, none = got
    want = [["one ", False], ["Etwo ", False], ["ENN", False], ["DE", False]]
    equal(words[:3], want[:3], "END in pieces that don't hold it")
    equal(words[3], ["D", False], "of the last piece, E may begin it")
    equal(borders, [["", False], ["", False], ["a", False], ["", True]], "aab in aaab")
    equal(two, [["x", True]], "the first of two stops in one piece")
    equal(none, [["a", False], ["b", False]], "no stops")


def probe_the_end_brings_what_was_held_back(seed):
    return [
        shown(["stop"], ["a st"]),
        shown(["stop"], ["a st", ""]),
        shown(["stop"], ["a sto", "p"]),
    ]


def judge_the_end_brings_what_was_held_back(seed, got):
    equal(got[0], [["a st", False]], "in the last piece")
    equal(got[1], [["a ", False], ["st", False]], "with a last piece without text")
    equal(got[2], [["a ", False], ["", True]], "a stop that the last piece completes")


def all_shown(stops: list[str], pieces: list[str]) -> list:
    """All that is shown of a text, and whether a stop string was met."""
    steps = shown(stops, pieces)
    return ["".join(text for text, _ in steps), steps[-1][1]]


def probe_the_stop_that_begins_first_counts_in_any_order_and_pieces(seed):
    stops = [["abc", "b"], ["b", "abc"]]
    texts = ["xabcx", "xabx", "xab"]
    return [
        [all_shown(some, pieces) for pieces in ([text], list(text))]
        for some in stops
        for text in texts
    ]


def judge_the_stop_that_begins_first_counts_in_any_order_and_pieces(seed, got):
    want = [[[text, True]] * 2 for text in ("x", "xa", "xa")]
    equal(got, want * 2, "shown at once and letter by letter, and whether a stop was met")


def probe_nothing_is_shown_behind_a_stop(seed):
    return shown(["."], ["one. two", " three", "."])


def judge_nothing_is_shown_behind_a_stop(seed, got):
    equal(got, [["one", True], ["", True], ["", True]], "text and whether the stop was met")


def drawn(seed: int) -> tuple[list[str], list[str]]:
    """A few stops and the pieces of a text, of two letters, so that they meet often."""
    rng = np.random.default_rng(seed)
    words = ["".join(rng.choice(list("ab"), rng.integers(1, 5))) for _ in range(12)]
    return words[: rng.integers(1, 4)], words[4:]


def probe_the_text_is_cut_at_the_first_stop(seed):
    found = []
    for i in range(200):
        stops, pieces = drawn(1000 * seed + i)
        found.append(all_shown(stops, pieces))
    return found


def judge_the_text_is_cut_at_the_first_stop(seed, got):
    want = []
    for i in range(200):
        stops, pieces = drawn(1000 * seed + i)
        text = "".join(pieces)
        places = [text.index(stop) for stop in stops if stop in text]
        want.append([text[: min(places)] if places else text, bool(places)])
    equal(got, want, "text shown, and whether a stop was met")


def probe_the_cost_of_a_letter_does_not_grow(seed):
    from time import process_time

    from minisgl.server.stop import StopChecker

    def seconds(text: str, stop: str) -> float:
        checker = StopChecker([stop, "never"])
        start = process_time()
        for char in text:
            checker.push(char)
        return process_time() - start

    text = "ab" * 50_000
    return [seconds(text, "ab" * 4 + "x"), seconds(text, "ab" * 5000 + "x")]


def judge_the_cost_of_a_letter_does_not_grow(seed, got):
    truth(max(got) < 5, "100,000 letters within 5 s of processor time", got)
