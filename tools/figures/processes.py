"""The processes of `python -m minisgl`, every kind of message between them, and who binds what."""

from __future__ import annotations

from collections.abc import Sequence

from figures.svg import Drawing, Point

DESC = """The processes of a running server. A client sends HTTP requests to the API server, which
is the process that was started, and gets an answer or a stream of events. The API server binds the
socket frontend. It sends TokenizeMsg and AbortMsg to the tokenizer. The tokenizer sends UserMsg
and AbortBackendMsg, several as a BatchBackendMsg, to the scheduler of rank 0, which has the engine
and binds the sockets backend and broadcast. Once a step rank 0 broadcasts what came in, as a
BatchBackendMsg, to the schedulers of the other ranks. It sends DetokenizeMsg and StatsMsg, several
as a BatchTokenizerMsg, to the detokenizer, which binds the socket detokenizer and sends UserReply,
with TokenLogprob if these were asked for, and StatsReply to the API server, several as a
BatchFrontendMsg. At the end the API server sends rank 0 an ExitMsg. With --num-tokenizer 0, the
default, tokenizer and detokenizer are one process that reads from the socket detokenizer. With
--num-tokenizer N there are N tokenizers, and the API server binds the socket tokenizer, from which
they read. A prompt that can't be tokenized makes the tokenizer send a UserReply with the error, and
a token without text makes the detokenizer send an AbortBackendMsg."""

LINES = (
    "Solid: a queue, each message to one receiver. Dashed: a broadcast, to every subscriber.",
    "Messages that leave together travel as one Batch… message. TokenLogprob: inside UserReply.",
    "With --num-tokenizer N there are N tokenizers, and the API server binds “tokenizer” too,",
    "from which they read; aborts then go to “detokenizer”. With 0, all goes there.",
    "When something fails: the tokenizer sends a UserReply with the error, and the detokenizer",
    "an AbortBackendMsg.",
)


def draw() -> Drawing:
    """Down on the left, up on the right; the end goes around."""
    d = Drawing("The processes of a server", DESC, 650, 692)
    _processes(d)
    d.arrow((290, 52), (290, 102))
    d.text(280, 81, "HTTP request", "s", "end")
    d.arrow((360, 104), (360, 54))
    d.text(370, 81, "answer, or a stream of events", "s")
    d.arrow((225, 156), (171, 156), (171, 278))
    _names(d, (181, 200), ["TokenizeMsg", "AbortMsg"])
    d.arrow((479, 280), (479, 139), (427, 139))
    _names(d, (469, 200), ["UserReply", "StatsReply", "BatchFrontendMsg"], "end")
    d.arrow((220, 348), (220, 446))
    _names(d, (230, 386), ["UserMsg", "AbortBackendMsg", "BatchBackendMsg"])
    d.arrow((404, 448), (404, 350))
    _names(d, (414, 386), ["DetokenizeMsg", "StatsMsg", "BatchTokenizerMsg"])
    d.arrow((225, 126), (30, 126), (30, 483), (198, 483))
    _names(d, (40, 118), ["ExitMsg"])
    d.arrow((310, 518), (310, 552), (550, 552), (550, 520), dashed=True)
    _names(d, (430, 546), ["BatchBackendMsg"], "middle")
    d.text(430, 567, "one a step, also when nothing came", "s", "middle")
    for i, line in enumerate(LINES):
        d.text(24, 596 + 18 * i - 2, line, "s")
    return d


def _processes(d: Drawing) -> None:
    d.box((225, 16), (200, 36), [("client", "b")])
    d.box(
        (225, 104),
        (200, 70),
        [("API server", "b"), ("python -m minisgl", "m"), ("binds “frontend”", "s")],
        "blue",
    )
    d.frame((60, 248), (530, 112))
    d.text(325, 269, "one process with --num-tokenizer 0", "s", "middle")
    d.box((76, 280), (190, 68), [("tokenizer", "b"), ("text to token ids", "s")], "amber")
    lines = [("detokenizer", "b"), ("token ids to text", "s"), ("binds “detokenizer”", "s")]
    d.box((384, 280), (190, 68), lines, "amber")
    lines = [("scheduler, rank 0", "b"), ("with its engine", "s")]
    d.box((200, 448), (220, 70), [*lines, ("binds “backend”, “broadcast”", "s")], "green")
    lines = [("other ranks", "b"), ("an engine each", "s"), ("from chapter 16 on", "s")]
    d.box((470, 448), (160, 70), lines, "green")


def _names(d: Drawing, at: Point, names: Sequence[str], anchor: str = "start") -> None:
    for i, name in enumerate(names):
        d.text(at[0], at[1] + 18 * i, name, "m", anchor)
