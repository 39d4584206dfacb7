"""A stream whose client leaves: who hears of it, what is still on its way, what becomes free."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing

DESC = """A sequence diagram of a stream whose client leaves, with lifelines for client, API server,
the process that tokenizes and detokenizes, scheduler and device; time runs downwards. The client's
POST becomes a TokenizeMsg, a UserMsg and batch 1. The scheduler launches batch 2 before it reads
token 1; each token goes as DetokenizeMsg, UserReply and event of the stream to the client. After
the second the client closes the connection. The API server hears of that, forgets the
request and sends an AbortMsg; the tokenizer sends an AbortBackendMsg. Batch 4 is launched already.
Token 3 still leaves the scheduler and is dropped by the detokenizer, which knows of the abort. In
its next step the scheduler takes the abort and launches nothing more for the request. When batch 4
is done its token is dropped, and the request's row and pages are free."""

CLIENT, API, TOKENIZER, SCHEDULER, DEVICE = COLUMNS = (52, 190, 326, 462, 600)
NAMES = ("client", "API server", "(de)tokenizer", "scheduler", "device")
TONES = ("plain", "blue", "amber", "green", "violet")
BAR = 66
BATCHES = (128, 206, 290, 458, 556)
"""Where each batch begins, and the last one's end."""
BOTTOM = 624


def draw() -> Drawing:
    """Lifelines, two tokens, the abort, and what is left."""
    d = Drawing("A client leaves in the midst of its stream", DESC, 650, 682)
    _lifelines(d)
    _message(d, 82, CLIENT, API, "POST")
    _message(d, 96, API, TOKENIZER, "TokenizeMsg")
    _message(d, 110, TOKENIZER, SCHEDULER, "UserMsg")
    _batch(d, 1, 124)
    for number, text in ((1, "“The”"), (2, "“ capital”")):
        end = BATCHES[number]
        _batch(d, number + 1, end - 22)
        _token(d, number)
        _message(d, end + 34, TOKENIZER, API, "UserReply")
        _message(d, end + 48, API, CLIENT, text)
    _leave(d)
    d.text(18, 648, "With overlap: batch 2 is launched before token 1 is read, and so on.", "s")
    d.text(
        18, 668, "What the prefix cache can use of the pages stays in it until there is need.", "s"
    )
    return d


def _leave(d: Drawing) -> None:
    """From the closed connection to the freed pages."""
    _message(d, 364, CLIENT, API, "closes")
    _cross(d, CLIENT, 364)
    _note(d, API, 374, ["hears the disconnect,", "forgets the request"])
    _batch(d, 4, 430)
    _message(d, 436, API, TOKENIZER, "AbortMsg")
    _message(d, 452, TOKENIZER, SCHEDULER, "AbortBackendMsg")
    _token(d, 3)
    _cross(d, TOKENIZER, BATCHES[3] + 20)
    d.text(TOKENIZER - 12, BATCHES[3] + 24, "dropped", "s", "end")
    _note(d, SCHEDULER, 500, ["takes the abort,", "launches no batch 5"])
    _back(d, 4)
    _note(d, SCHEDULER, 572, ["drops token 4,", "frees row and pages"], "green")


def _lifelines(d: Drawing) -> None:
    for x, name, tone in zip(COLUMNS, NAMES, TONES, strict=True):
        d.line((x, 48), (x, BOTTOM), dashed=True)
        width = max(84, len(name) * 9)
        d.box((x - width / 2, 16), (width, 32), [(name, "b")], tone)


def _batch(d: Drawing, number: int, launched: float) -> None:
    """A batch's bar on the device, and the arrow that launches it."""
    begin, end = BATCHES[number - 1 : number + 1]
    d.box((DEVICE - BAR / 2, begin), (BAR, end - begin), [(f"batch {number}", "s")], "violet", 4)
    _message(d, launched, SCHEDULER, DEVICE - BAR / 2, f"launch {number}")


def _back(d: Drawing, number: int) -> None:
    """The arrow by which the scheduler reads a token."""
    _message(d, BATCHES[number] + 6, DEVICE - BAR / 2, SCHEDULER, f"token {number}")


def _token(d: Drawing, number: int) -> None:
    """A token from the device to the detokenizer."""
    _back(d, number)
    _message(d, BATCHES[number] + 20, SCHEDULER, TOKENIZER, "DetokenizeMsg")


def _message(d: Drawing, y: float, giver: float, taker: float, name: str) -> None:
    """An arrow from one lifeline to another with its name above."""
    d.arrow((giver, y), (taker + (2 if taker < giver else -2), y))
    kind = "m" if name.endswith(("Msg", "Reply")) else "s"
    d.text((giver + taker) / 2 + (4 if taker < giver else -4), y - 5, name, kind, "middle")


def _cross(d: Drawing, x: float, y: float) -> None:
    d.line((x - 6, y - 6), (x + 6, y + 6))
    d.line((x - 6, y + 6), (x + 6, y - 6))


def _note(d: Drawing, x: float, y: float, lines: Sequence[str], tone: str = "plain") -> None:
    """A box over a lifeline that says what happens there."""
    d.box((x - 78, y), (156, 40), [(line, "s") for line in lines], tone, 4)
