"""The processes of the finished engine and every kind of message between them."""

from __future__ import annotations

from figures.svg import Drawing

DESC = """Process layout. A client talks HTTP to the API server. The API server sends
TokenizeMsg and AbortMsg to the tokenizer workers; these send UserMsg, AbortBackendMsg and
ExitMsg to the scheduler of rank 0, which broadcasts them to the schedulers of the other ranks.
Rank 0 sends DetokenizeMsg to the detokenizer, which sends UserReply back to the API server.
Each scheduler owns an engine; the engines exchange tensors by all-reduce and all-gather."""


def draw() -> Drawing:
    """Messages run around a ring: down on the left, up on the right."""
    d = Drawing("Processes and messages", DESC, 720, 510)
    d.box((20, 34), (110, 60), ["Client", ("HTTP", "s")])
    d.box(
        (260, 24),
        (200, 80),
        [("API server", "b"), ("OpenAI protocol,", "s"), ("streaming", "s")],
        "blue",
    )
    d.arrow((130, 54), (258, 54), label="request")
    d.arrow((258, 78), (132, 78))
    d.text(195, 96, "text, streamed", "s", "middle")

    d.box((20, 190), (190, 64), [("Tokenizer workers", "b"), ("text to token ids", "s")], "green")
    d.box((510, 190), (190, 64), [("Detokenizer", "b"), ("token ids to text", "s")], "green")
    d.arrow((300, 104), (300, 140), (115, 140), (115, 188))
    d.text(128, 132, "TokenizeMsg, AbortMsg", "m")
    d.arrow((605, 190), (605, 140), (420, 140), (420, 106))
    d.text(512, 132, "UserReply", "m", "middle")

    d.box(
        (240, 340),
        (210, 50),
        [("Scheduler, rank 0", "b"), ("chooses the next batch", "s")],
        "amber",
    )
    d.box((240, 390), (210, 44), [("Engine", "b"), ("model, KV pool, sampler", "s")], "violet")
    d.box(
        (510, 340), (190, 50), [("Schedulers, rank 1..", "b"), ("one for each GPU", "s")], "amber"
    )
    d.box((510, 390), (190, 44), [("Engine", "b"), ("its shard of the model", "s")], "violet")
    d.arrow((115, 254), (115, 365), (238, 365))
    d.text(128, 282, "UserMsg", "m")
    d.text(128, 300, "AbortBackendMsg", "m")
    d.text(128, 318, "ExitMsg", "m")
    d.arrow((345, 340), (345, 300), (555, 300), (555, 256))
    d.text(360, 292, "DetokenizeMsg", "m")
    d.arrow((450, 365), (508, 365))
    d.text(605, 330, "the same messages, broadcast", "s", "middle")
    d.line((345, 434), (345, 462), (605, 462), (605, 434), dashed=True)
    d.text(475, 480, "all-reduce, all-gather", "s", "middle")
    d.text(20, 470, "Solid: ZMQ queues, msgpack.", "s")
    d.text(20, 488, "Dashed: tensors between ranks.", "s")
    return d
