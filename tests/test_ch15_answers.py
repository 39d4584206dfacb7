"""Chapter 15: what clients get: answers with their counts, and bodies and events around them."""

from __future__ import annotations

import json
import math
from typing import Any

from pairs import close, equal, public_bug, truth

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "m", "prompt": "hi"}
PROMPT, CACHED = 7, 4


def token(text: str | bytes, logprob: float = -0.5) -> Any:
    from minisgl.message import TokenLogprob

    data = text.encode() if isinstance(text, str) else text
    return TokenLogprob(data.decode(errors="replace"), data, logprob)


def replies(*texts: str, ends: str | None = "length", best: Any = None) -> list[Any]:
    """A reply for each token's text, the last of them finished; ends: how, None for not at all.

    best: for each token, its log-probabilities.
    """
    from minisgl.message import UserReply

    made = [
        UserReply(1, text, False, num_tokens=1, logprobs=best[i] if best else None)
        for i, text in enumerate(texts)
    ]
    if ends == "length":
        made[-1].finished = True
    if ends == "stop":
        own = [token("</s>")] if best else None  # which is no token of the answer
        made.append(UserReply(1, "", True, at_end=True, logprobs=own))
    made[0].prompt_tokens, made[0].cached_tokens = PROMPT, CACHED  # only the first says so
    return made


def answered(made: list[Any], stops: tuple[str, ...] = ()) -> tuple[Any, list[Any]]:
    """An answer after these replies, and what each added."""
    from minisgl.server.answer import Answer

    answer = Answer(list(stops))
    return answer, [answer.push(reply) for reply in made]


def told(made: list[Any], stops: tuple[str, ...] = ()) -> dict[str, Any]:
    """All of that as plain data; a token is its text."""
    answer, pieces = answered(made, stops)
    return {
        "pieces": [[piece.text, piece.finish_reason] for piece in pieces],
        "tokens": [[each.logprobs[0].token for each in piece.tokens] for piece in pieces],
        "offsets": [each.offset for piece in pieces for each in piece.tokens],
        "text": answer.joined().text,
        "counts": [answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens],
        "finish": [answer.finish_reason, answer.joined().finish_reason, answer.is_stopped],
    }


def chat(**fields: Any) -> Any:
    from minisgl.server.protocol import ChatCompletionRequest
    from minisgl.server.replies import ChatReply

    return ChatReply(ChatCompletionRequest.model_validate(CHAT | fields))


def text(**fields: Any) -> Any:
    from minisgl.server.protocol import CompletionRequest
    from minisgl.server.replies import TextReply

    return TextReply(CompletionRequest.model_validate(TEXT | fields))


def read(data: bytes) -> list[Any]:
    """The events of a stream: the JSON of each, or its text where it is none."""
    events = data.decode().split("\n\n")
    truth(events.pop() == "" and all(each.startswith("data: ") for each in events), "events", data)
    lines = [each.removeprefix("data: ") for each in events]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def streamed(reply: Any, answer: Any, pieces: list[Any]) -> list[Any]:
    """All events of one choice's stream."""
    events = reply.begin(0) + b"".join(reply.piece(0, piece) for piece in pieces)
    return read(events + reply.end([answer]))


def same_head(bodies: list[dict[str, Any]], prefix: str, name: str) -> None:
    """What stands in each body of a reply beside its choices; it is taken out of them."""
    heads = [[body.pop(key) for key in ("id", "object", "created", "model")] for body in bodies]
    equal(heads, [heads[0]] * len(heads), "id, object, created and model of all parts")
    number, kind, created, model = heads[0]
    truth(number.startswith(prefix) and len(number) > len(prefix) + 16, "the id", number)
    truth(type(created) is int and created > 1_700_000_000, "when it was created", created)
    equal([kind, model], [name, "m"], "object and model")


def probe_an_answer_counts_its_tokens_and_says_why_it_ends(seed):
    return {
        "length": told(replies("a", "b")),
        "stop": told(replies("a", "b", ends="stop")),
        "nothing": told(replies(ends="stop")),
        "running": told(replies("a", "b", ends=None)),
    }


def judge_an_answer_counts_its_tokens_and_says_why_it_ends(seed, got):
    equal(got["length"]["pieces"], [["a", None], ["b", "length"]], "at the limit")
    equal(got["stop"]["pieces"], [["a", None], ["b", None], ["", "stop"]], "at an end token")
    equal(got["nothing"]["pieces"], [["", "stop"]], "an end token alone")
    equal(got["running"]["pieces"], [["a", None], ["b", None]], "before the end")
    counts = {kind: each["counts"] for kind, each in got.items()}
    equal(counts.pop("nothing"), [PROMPT, CACHED, 0], "tokens without an answer")
    equal(counts, dict.fromkeys(counts, [PROMPT, CACHED, 2]), "tokens: an end token is none")
    reasons = {kind: each["finish"][0] for kind, each in got.items()}
    want = {"length": "length", "stop": "stop", "nothing": "stop", "running": None}
    equal(reasons, want, "finish_reason")


@public_bug("B81")
def probe_a_stop_string_ends_an_answer_before_the_scheduler_does(seed):
    return {
        "met": told(replies("a", ",", "b", ",", "c", "d", "e"), ("b,c",)),
        "not met": told(replies("a", ",", "b", "x"), ("b,c",)),
        "last": told(replies("a", "b", "c"), ("bc",)),
        "held": told(replies("a", "b", ends="stop"), ("bc",)),
        "at the end": told(replies("a", "bc", ends="stop"), ("c",)),
    }


def judge_a_stop_string_ends_an_answer_before_the_scheduler_does(seed, got):
    met = got["met"]
    rest = [["", None]] * 2
    want = [["a", None], [",", None], *rest, ["", "stop"], *rest]
    equal([met["pieces"], met["text"]], [want, "a,"], "a stop across three tokens")
    equal(met["counts"], [PROMPT, CACHED, 5], "tokens up to the one that completes the stop")
    equal(met["finish"], ["stop", "stop", True], "the request is to be aborted")
    equal(got["not met"]["text"], "a,bx", "what may have been a stop")
    equal(got["not met"]["pieces"][-1], ["bx", "length"], "it comes with the last token")
    equal(got["last"]["finish"], ["stop", "stop", False], "a stop in the last token")
    equal([got["last"]["text"], got["last"]["counts"][2]], ["a", 3], "and the text before it")
    equal([got["held"]["text"], got["held"]["finish"]], ["ab", ["stop", "stop", False]], "held")
    equal(got["at the end"]["text"], "ab", "a stop in the token before an end token")
    equal(got["at the end"]["finish"], ["stop", "stop", True], "which is not yet known")


def probe_log_probabilities_come_with_the_text_that_shows_them(seed):
    def logs(*texts: str | bytes) -> list[Any]:
        return [[token(each)] for each in texts]

    half = ["a", "", "é", "b"]
    named = ["a", "?", "é", "b"]
    return {
        "held": told(replies("x", "s", "t", "y", best=logs("x", "s", "t", "y")), ("sto",)),
        "cut": told(replies("x.", "a b", "c", best=logs("x.", "a b", "c")), (" bc",)),
        "behind": told(replies("x", "s", "t", best=logs("x", "s", "t")), ("st",)),
        "half": told(replies(*half, best=logs(*named))),
        "late": told(replies("a", "", "?b", best=logs("a", "?", "b"))),
        "half cut": told(replies(*half, best=logs(*named)), ("é",)),
        "end": told(replies("a", "b", ends="stop", best=logs("a", "b")), ("bc",)),
        "none": told(replies("a", "", best=logs("a", "?"))),
    }


def judge_log_probabilities_come_with_the_text_that_shows_them(seed, got):
    equal(got["held"]["tokens"], [["x"], [], [], ["s", "t", "y"]], "tokens that were held back")
    equal(got["held"]["offsets"], [0, 1, 2, 3], "where they begin")
    equal(got["cut"]["pieces"], [["x.", None], ["a", None], ["", "stop"]], "a cut within a token")
    equal(got["cut"]["tokens"], [["x."], ["a b"], []], "whose value comes with its first letter")
    equal(got["behind"]["tokens"], [["x"], [], []], "tokens of a stop string")
    equal(got["half"]["tokens"], [["a"], [], ["?", "é"], ["b"]], "half a character waits")
    equal(got["half"]["offsets"], [0, 1, 1, 2], "both halves begin at the character")
    equal(got["late"]["offsets"], [0, 1, 2], "a token behind half a character that stays one")
    equal(got["half cut"]["tokens"], [["a"], [], [], []], "both halves of a stop string")
    equal(got["end"]["tokens"], [["a"], [], ["b"]], "the end brings them")
    equal(got["none"]["tokens"], [["a"], ["?"]], "a last token without text")


@public_bug("B84", "B85")
def probe_a_chat_that_is_not_streamed_is_one_object(seed):
    from minisgl.server.replies import dump

    long, _ = answered(replies("he", "llo", "!"))
    short, _ = answered(replies("hi", ends="stop"))
    return [
        json.loads(dump(chat(n=2).whole([long, short]))),
        json.loads(dump(chat().whole([long]))),
    ]


def judge_a_chat_that_is_not_streamed_is_one_object(seed, got):
    for body in got:
        same_head([body], "chatcmpl-", "chat.completion")
    choices = [["hello!", "length"], ["hi", "stop"]]
    want = [
        {
            "index": i,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": None,
            "finish_reason": reason,
        }
        for i, (content, reason) in enumerate(choices)
    ]
    equal(got[0], {"choices": want, "usage": counts(4)}, "two choices; the prompt counts once")
    equal(got[1], {"choices": want[:1], "usage": counts(3)}, "one choice")


def counts(written: int, prompts: int = 1) -> dict[str, Any]:
    return {
        "prompt_tokens": PROMPT * prompts,
        "completion_tokens": written,
        "total_tokens": PROMPT * prompts + written,
        "prompt_tokens_details": {"cached_tokens": CACHED * prompts},
    }


@public_bug("B85")
def probe_a_chat_s_stream_has_these_events(seed):
    made = answered(replies("he", "", "llo"))
    ended = answered(replies("he", ends="stop"))
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return [
        streamed(chat(stream=True), *made),
        streamed(chat(**options), *ended),
    ]


def judge_a_chat_s_stream_has_these_events(seed, got):
    def choice(delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        only = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return {"choices": [only]}

    for events in got:
        equal(events.pop(), "[DONE]", "the last event")
        same_head(events, "chatcmpl-", "chat.completion.chunk")
    first = choice({"role": "assistant", "content": ""})
    want = [first, choice({"content": "he"}), choice({"content": "llo"}, "length")]
    equal(got[0], want, "a stream without usage; a token without text has no event")
    want = [first, choice({"content": "he"}), choice({}, "stop")]
    last = {"choices": [], "usage": counts(1)}
    equal(got[1], [*[each | {"usage": None} for each in want], last], "a stream with usage")


@public_bug("B84", "B85")
def probe_a_completion_has_these_parts(seed):
    made = [answered(replies(*word, ends=end)) for word, end in (("ab", "length"), ("c", "stop"))]
    reply = text(n=2, prompt=["x", "y"])
    whole = reply.whole([answer for answer, _ in (*made, *made)])
    options = {"include_usage": True}
    return [
        whole,
        streamed(text(stream=True), *made[0]),
        streamed(text(stream=True, stream_options=options), *made[1]),
    ]


def judge_a_completion_has_these_parts(seed, got):
    def choice(text: str, reason: str | None, index: int = 0) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}

    whole, plain, counted = got
    equal([plain.pop(), counted.pop()], ["[DONE]"] * 2, "the last events")
    for bodies in ([whole], plain, counted):
        same_head(bodies, "cmpl-", "text_completion")
    kinds = [("ab", "length"), ("c", "stop")] * 2
    want = [choice(text, reason, i) for i, (text, reason) in enumerate(kinds)]
    equal(whole, {"choices": want, "usage": counts(6, prompts=2)}, "two choices for two prompts")
    want = [choice("a", None), choice("b", "length")]
    equal(plain, [{"choices": [each]} for each in want], "a stream without usage")
    want = [{"choices": [choice("c", None)], "usage": None}]
    want += [{"choices": [choice("", "stop")], "usage": None}, {"choices": [], "usage": counts(1)}]
    equal(counted, want, "a stream with usage")


def best() -> list[list[Any]]:
    """Of two tokens, the second the first half of a character: themselves, then the best two."""
    first, other = token("a", -1.0), token("b", -0.5)
    half, third = token(b"\xe4", -0.25), token(b"\xe5", -math.inf)
    return [[first, other, first], [half, half, third]]


@public_bug("B35")
def probe_log_probabilities_have_openai_s_shape(seed):
    from minisgl.server.replies import dump

    answer, pieces = answered(replies("a", "ä", best=best()))
    asked = {"logprobs": True, "top_logprobs": 2}
    kinds = {
        "chat": chat(**asked),
        "chosen": chat(logprobs=True),
        "none": chat(),
        "text": text(logprobs=2),
        "text chosen": text(logprobs=0),
    }
    wholes = {
        kind: json.loads(dump(reply.whole([answer])))["choices"][0]["logprobs"]
        for kind, reply in kinds.items()
    }
    streams = [chat(stream=True, **asked), text(stream=True, logprobs=2)]
    return [wholes, [streamed(reply, answer, pieces) for reply in streams]]


def judge_log_probabilities_have_openai_s_shape(seed, got):
    def one(token: str, logprob: float, data: list[int]) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": data}

    wholes, (chats, texts) = got
    a, b = one("a", -1.0, [97]), one("b", -0.5, [98])
    half, other = one("\ufffd", -0.25, [0xE4]), one("\ufffd", -9999.0, [0xE5])
    want = [a | {"top_logprobs": [b, a]}, half | {"top_logprobs": [half, other]}]
    equal(wholes["chat"], {"content": want, "refusal": None}, "a chat's tokens and the best")
    chosen = [each | {"top_logprobs": []} for each in (a, half)]
    equal(wholes["chosen"], {"content": chosen, "refusal": None}, "the tokens alone")
    equal(wholes["none"], None, "not asked for")
    columns = {
        "tokens": ["a", "bytes:\\xe4"],
        "token_logprobs": [-1.0, -0.25],
        "top_logprobs": [{"a": -1.0, "b": -0.5}, {"bytes:\\xe4": -0.25, "bytes:\\xe5": -9999.0}],
        "text_offset": [0, 1],
    }
    equal(wholes["text"], columns, "a completion's tokens and the best")
    few = [{"a": -1.0}, {"bytes:\\xe4": -0.25}]
    equal(wholes["text chosen"], columns | {"top_logprobs": few}, "the tokens alone")
    found = [each["choices"][0]["logprobs"] for each in chats[:-1]]
    parts = [{"content": [each], "refusal": None} for each in want]
    equal(found, [None, *parts], "in the events of a chat")
    found = [each["choices"][0]["logprobs"] for each in texts[:-1]]
    parts = [{key: [column[i]] for key, column in columns.items()} for i in range(2)]
    equal(found, parts, "in the events of a completion")


@public_bug("B35")
def probe_no_number_or_character_breaks_a_body(seed):
    from minisgl.message import TokenLogprob
    from minisgl.server.errors import ApiError
    from minisgl.server.replies import dump, error_event

    odd = [[TokenLogprob("\ud800", b"\xed", value)] for value in (math.nan, -math.inf, -1e300)]
    answer, pieces = answered(replies("\udfff", "\u2028\n", "\x00", best=odd))
    bodies = [chat(logprobs=True).whole([answer]), text(logprobs=0).whole([answer])]
    streams = [chat(stream=True, logprobs=True), text(stream=True, logprobs=0)]
    found = [json.loads(dump(body)) for body in bodies]
    events = [streamed(reply, answer, pieces) for reply in streams]
    return {
        "texts": [found[0]["choices"][0]["message"]["content"], found[1]["choices"][0]["text"]],
        "values": [item["logprob"] for item in found[0]["choices"][0]["logprobs"]["content"]],
        "columns": found[1]["choices"][0]["logprobs"]["token_logprobs"],
        "events": [len(each) for each in events],
        "error": read(error_event(ApiError(500, "it died\ud800\n\n", type="server_error"))),
    }


def judge_no_number_or_character_breaks_a_body(seed, got):
    equal(got["texts"], ["?\u2028\n\x00"] * 2, "text")
    equal([got["values"], got["columns"]], [[-9999.0] * 3] * 2, "log-probabilities")
    equal(got["events"], [5, 4], "events")
    error = {"message": "it died?\n\n", "type": "server_error", "param": None, "code": None}
    equal(got["error"], [{"error": error}], "an error in mid-stream")


def probe_generate_streams_plain_text(seed):
    from minisgl.server.replies import GenerateReply

    _, pieces = answered(replies(" one", "two\n\nthree", "", "\r\n", "\r", "\ud800"))
    reply = GenerateReply()
    events = [reply.begin(0), *[reply.piece(0, piece) for piece in pieces], reply.end([])]
    return [each.decode() for each in events]


def judge_generate_streams_plain_text(seed, got):
    lines = "data: \ndata: \n\n"
    want = ["data:  one\n\n", "data: two\ndata: \ndata: three\n\n", "", lines, lines, "data: ?\n\n"]
    equal(got, ["", *want, "data: [DONE]\n\n"], "events: a line of data for each line of text")


def probe_an_event_takes_a_few_microseconds(seed):
    from time import process_time

    _, pieces = answered(replies(*["word "] * 2000))
    reply = chat(stream=True)
    seconds = []
    for _ in range(5):
        start = process_time()
        for piece in pieces:
            reply.piece(0, piece)
        seconds.append(process_time() - start)
    return min(seconds) / len(pieces) * 1e6


def judge_an_event_takes_a_few_microseconds(seed, got):
    close(got, 0, 50, "microseconds for an event (15 were meant)")
