"""The engine's processes and every message that goes between them."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Five processes and the messages between them. The server, which clients talk to, sends
TokenizeMsg and AbortMsg to the tokenizer. The tokenizer sends UserMsg and AbortBackendMsg to the
scheduler of rank 0, and ExitMsg comes the same way. Once a step rank 0 tells the schedulers
of the other ranks by a broadcast what came in. It sends a DetokenizeMsg for each token to the
detokenizer, which sends a UserReply with the next piece of text to the server. A StatsMsg goes the
same way and becomes a StatsReply. All arrows but the broadcast are push and pull queues, in which
each message is taken by one receiver; a broadcast reaches every subscriber. Several messages may
travel as one: BatchTokenizerMsg, BatchBackendMsg, BatchFrontendMsg."""

SIZE = (150, 58)
SERVER, TOKENIZER, RANK0, OTHERS, DETOKENIZER = (
    (24, 142), (285, 56), (546, 142), (546, 300), (285, 228),
)  # fmt: skip


def draw() -> Drawing:
    """Requests above, from left to right; answers below, from right to left."""
    d = Drawing("Processes and their messages", DESC, 720, 420)
    d.box(SERVER, SIZE, [("server", "b"), ("frontend messages", "s")], "blue")
    d.box(TOKENIZER, SIZE, [("tokenizer", "b"), ("tokenizer messages", "s")], "amber")
    d.box(RANK0, SIZE, [("scheduler, rank 0", "b"), ("backend messages", "s")], "green")
    d.box(OTHERS, SIZE, [("other ranks", "b"), ("backend messages", "s")], "green")
    d.box(DETOKENIZER, SIZE, [("detokenizer", "b"), ("tokenizer messages", "s")], "amber")
    d.arrow((99, 142), (99, 85), (283, 85))
    d.text(110, 58, "TokenizeMsg", "m")
    d.text(110, 76, "AbortMsg", "m")
    d.arrow((435, 85), (621, 85), (621, 140))
    d.text(446, 40, "UserMsg", "m")
    d.text(446, 58, "AbortBackendMsg", "m")
    d.text(446, 76, "ExitMsg", "m")
    d.arrow((621, 200), (621, 298), dashed=True)
    d.text(612, 276, "broadcast", "s", "end")
    d.text(612, 292, "once a step", "s", "end")
    d.arrow((560, 200), (560, 257), (437, 257))
    d.text(446, 232, "DetokenizeMsg", "m")
    d.text(446, 250, "StatsMsg", "m")
    d.arrow((283, 257), (99, 257), (99, 202))
    d.text(110, 232, "UserReply", "m")
    d.text(110, 250, "StatsReply", "m")
    d.text(24, 350, "Solid: a queue; each message is taken by one receiver.", "s")
    d.text(24, 368, "Dashed: a broadcast; each subscriber gets every message.", "s")
    d.text(24, 386, "Several at once: BatchTokenizerMsg, BatchBackendMsg,", "s")
    d.text(24, 404, "BatchFrontendMsg.", "s")
    return d
