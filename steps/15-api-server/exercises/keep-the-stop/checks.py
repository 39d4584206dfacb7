"""Pushes texts in drawn pieces, and says what is certain of each by trying the definition."""

from __future__ import annotations

from random import Random

from pairs import equal, truth

LETTERS = "ab"


def words(random, count, longest):
    return ["".join(random.choices(LETTERS, k=random.randrange(1, longest))) for _ in range(count)]


def undecided(seed):
    """Stops and texts that hold none of them, but often end in the beginning of one."""
    random, found = Random(seed), []
    while len(found) < 40:
        stops = words(random, random.randrange(1, 4), 6)
        text = "".join(words(random, 1, 9))
        if not any(stop in text for stop in stops):
            found.append([stops, text])
    return found


def held_of(seed, keeps):
    """Of the drawn cases those for which keeps(stops, text): measured, and predicted."""
    from minisgl.server.stop import StopChecker

    cases = [case for case in undecided(seed) if keeps(*case)]
    measured = [len(text) - len(StopChecker(stops).push(text)[0]) for stops, text in cases]

    from answer import held_back

    predicted = [held_back(list(stops), text) for stops, text in cases]
    return [list(case) for case in zip(cases, measured, predicted, strict=True)]


def judged(got, what):
    truth(len(got) > 0, f"{what}: there are cases", len(got))
    for (stops, text), measured, predicted in got:
        equal(predicted, measured, f"{what}: held_back({stops}, {text!r})")


def probe_how_much_one_stop_holds_back(seed):
    return held_of(seed, lambda stops, text: len(stops) == 1)


def judge_how_much_one_stop_holds_back(seed, got):
    judged(got, "one stop string (what is held back is the end that the stop string begins with)")


def probe_how_much_several_stops_hold_back(seed):
    return held_of(seed, lambda stops, text: len(stops) > 1)


def judge_how_much_several_stops_hold_back(seed, got):
    judged(got, "several stop strings (each of them may hold some back, and the most of it counts)")


class Certain:
    """What is known of an answer that keeps its stop string, from the definition alone."""

    def __init__(self, stops):
        self.stops, self.text, self.end, self.is_met = stops, "", 0, False

    def push(self, piece, last):
        """Return how much of the text is certain now, and whether the answer has ended there."""
        for letter in piece:
            if not self.is_met:
                self.text += letter
                self._look()
        if last and self._first() is not None:
            self.is_met = True
        return [self.text[: self.end], self.is_met]

    def _first(self):
        """Begin and end of the stop string that begins first; of two, the one that ends first."""
        found = [(self.text.find(stop), len(stop)) for stop in self.stops if stop in self.text]
        return min(found, default=None)

    def _look(self):
        first, text = self._first(), self.text
        self.end = len(text) if first is None else sum(first)
        if first is not None:
            earlier = [text[begin:] for begin in range(first[0])]
            self.is_met = not any(stop.startswith(end) for stop in self.stops for end in earlier)


def wanted(stops, pieces, ends):
    certain, shown, found = Certain(stops), "", []
    for i, piece in enumerate(pieces):
        text, is_met = certain.push(piece, ends and i == len(pieces) - 1)
        found.append([text[len(shown) :], is_met])
        shown = text
    return found


def pushed(stops, pieces, ends):
    from answer import KeepingChecker

    checker = KeepingChecker(list(stops))
    last = len(pieces) - 1
    return [list(checker.push(piece, ends and i == last)) for i, piece in enumerate(pieces)]


def seen(cases):
    return [pushed(*case) for case in cases]


def compared(got, cases, what):
    for case, found in zip(cases, got, strict=True):
        stops, pieces, _ = case
        equal(found, wanted(*case), f"{what}: stops {stops}, pieces {pieces}, what was shown")


UNENDED = [(["END"], ["one E", "N", "x E"], False), (["aab"], list("aaa"), False)]
NO_STOPS = [([], ["a", "b"], True)]


def probe_text_that_may_begin_a_stop(seed):
    return seen(UNENDED + NO_STOPS)


def judge_text_that_may_begin_a_stop(seed, got):
    what = "text that may begin a stop string (it belongs to the answer, whatever comes)"
    compared(got, UNENDED + NO_STOPS, what)


ENDED = [
    (["END"], ["one EN", "D two", " three"], False),
    (["."], ["one. two", "."], False),
    (["b,c"], list("a,b,c,"), True),
]


def probe_text_behind_the_stop(seed):
    return seen(ENDED)


def judge_text_behind_the_stop(seed, got):
    what = "text behind the stop string (the answer ends with its last letter, also inside a piece)"
    compared(got, ENDED, what)


BOTH_ORDERS = (["abcd", "b"], ["b", "abcd"])
EARLIER = [
    (stops, pieces, False)
    for stops in BOTH_ORDERS
    for pieces in (["xabcd."], ["xab", "cd."], list("xabcd."))
]


def probe_a_stop_that_began_earlier(seed):
    return seen(EARLIER)


def judge_a_stop_that_began_earlier(seed, got):
    what = "a stop string that began earlier (the one that begins first ends the answer)"
    for case, steps in zip(EARLIER, got, strict=True):
        stops, pieces, _ = case
        text = "".join(text for text, _ in steps)
        where = f"{what}: stops {stops}, pieces {pieces}"
        equal(text, "xabcd", f"{where}, all that was shown")
        equal(steps[-1][1], True, f"{where}, whether a stop string was met")


BETWEEN = [
    (stops, pieces, False)
    for stops in BOTH_ORDERS
    for pieces in (["xab", "c", "d"], ["xabc", "x"], list("xabcx"))
]


def probe_text_behind_a_stop_that_is_undecided(seed):
    return seen(BETWEEN)


def judge_text_behind_a_stop_that_is_undecided(seed, got):
    what = "text behind a stop string that is undecided (it counts only if the other one comes)"
    compared(got, BETWEEN, what)


TWINS = [
    (stops, pieces, False)
    for stops in (["ab", "abcd"], ["abcd", "ab"])
    for pieces in (["xabcd."], list("xabcd."))
]


def probe_two_that_begin_at_the_same_place(seed):
    return seen(TWINS)


def judge_two_that_begin_at_the_same_place(seed, got):
    what = "two stop strings that begin at the same place (the shorter is whole first, and ends it)"
    compared(got, TWINS, what)


LAST = [
    (["abcd", "b"], ["xab", "c"], True),
    (["abcd", "b"], ["xab", "c", ""], True),
    (["END"], ["two E", "N"], True),
]


def probe_the_last_piece(seed):
    return seen(LAST)


def judge_the_last_piece(seed, got):
    what = "the last piece (what might still have begun is out, and a whole stop string counts)"
    compared(got, LAST, what)


def drawn(seed):
    random = Random(seed)
    return [
        (words(random, random.randrange(1, 4), 6), words(random, 8, 4), random.random() < 0.7)
        for _ in range(150)
    ]


def probe_any_stops_and_pieces(seed):
    return seen(drawn(seed))


def judge_any_stops_and_pieces(seed, got):
    compared(got, drawn(seed), "any stop strings and pieces (all of the above at once)")
