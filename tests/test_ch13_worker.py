"""Chapter 13: the worker between server and scheduler, reached through sockets only."""

from __future__ import annotations

import logging
import queue
import tempfile
import threading
import time
from contextlib import contextmanager
from typing import Any
from unittest import mock

from pairs import checkpoint, equal, error_of, public_bug, refused, truth

MODEL = "tiny-qwen3"


class Office:
    """Probe side: the ends of the three queues around a worker that runs in a thread."""

    def __init__(self, folder: str) -> None:
        from minisgl.message import BaseBackendMsg, BaseFrontendMsg, BaseTokenizerMsg
        from minisgl.utils import ZmqPullQueue, ZmqPushQueue

        self.addresses = {
            name: f"ipc://{folder}/{name}" for name in ("addr", "backend_addr", "frontend_addr")
        }
        self.inbox = ZmqPushQueue(self.addresses["addr"], False, BaseTokenizerMsg.encoder)
        self.backend = ZmqPullQueue(self.addresses["backend_addr"], True, BaseBackendMsg.decoder)
        self.frontend = ZmqPullQueue(self.addresses["frontend_addr"], True, BaseFrontendMsg.decoder)
        self.ready: queue.Queue[str | None] = queue.Queue()

    def start(self, **settings: Any) -> str:
        from minisgl.tokenizer import tokenize_worker

        fixed = {"tokenizer_path": checkpoint(MODEL), "create": True, "local_bs": 8}
        given = {**fixed, **self.addresses, "ack_queue": self.ready, **settings}

        def work() -> None:
            try:
                tokenize_worker(**given)
            finally:
                self.ready.put(None)

        self.thread = threading.Thread(target=work, daemon=True)
        self.thread.start()
        ack = self.ready.get(timeout=60)
        assert ack is not None, "the worker has ended"
        return ack

    def get(self, side: Any, count: int) -> list[list[Any]]:
        """The next messages of one side, count in all, each batch as a list of its own."""
        got: list[list[Any]] = []
        while sum(map(len, got)) < count:
            end = time.monotonic() + 20
            while not side.socket.poll(timeout=100):
                assert self.thread.is_alive(), f"only {got} came before the worker ended"
                assert time.monotonic() < end, f"only {got} came within 20 s"
            msg = side.get()
            got.append(msg.data if hasattr(msg, "data") else [msg])
        return got

    def replies(self, count: int) -> list[Any]:
        flat = [msg for batch in self.get(self.frontend, count) for msg in batch]
        return [[msg.uid, msg.incremental_output, msg.finished, msg.error] for msg in flat]

    def requests(self, count: int) -> list[Any]:
        flat = [msg for batch in self.get(self.backend, count) for msg in batch]
        shown = [[type(msg).__name__, msg.uid] for msg in flat]
        ids = [msg.input_ids.tolist() if hasattr(msg, "input_ids") else None for msg in flat]
        return [[*kind, tokens] for kind, tokens in zip(shown, ids, strict=True)]


@contextmanager
def office() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        yield Office(folder)


def ask(uid: int, text: Any, **params: Any) -> Any:
    from minisgl.core import SamplingParams
    from minisgl.message import TokenizeMsg

    return TokenizeMsg(uid, text, SamplingParams(**params))


def said(uid: int, token: int, finished: bool = False, **more: Any) -> Any:
    from minisgl.message import DetokenizeMsg

    return DetokenizeMsg(uid, token, finished, **more)


def facts(reply: Any) -> list[Any]:
    """What a reply says beside its text."""
    return [reply.uid, reply.at_end, reply.num_tokens, reply.prompt_tokens, reply.cached_tokens]


def tokens(text: str) -> list[int]:
    from minisgl.utils import load_tokenizer

    return list(load_tokenizer(checkpoint(MODEL)).encode(text))


def probe_each_kind_of_message_goes_to_its_side(seed):
    from minisgl.message import AbortMsg

    with office() as o:
        acks = [o.start(tokenizer_id=3)]
        o.inbox.put(ask(5, "Hello", max_tokens=7, temperature=0.5))
        (asked,) = o.get(o.backend, 1)[0]
        params = asked.sampling_params
        first = [asked.uid, asked.input_ids.tolist(), params.max_tokens, params.temperature]
        ids = tokens("Hi 😀")
        for i, token in enumerate(ids):
            o.inbox.put(said(5, token, i == len(ids) - 1))
        replies = o.replies(len(ids))
        o.inbox.put(AbortMsg(6))
        stop = o.requests(1)
        return [
            [acks[0] != "", o.ready.empty()],
            first == [5, tokens("Hello"), 7, 0.5],
            replies,
            stop,
            o.frontend.empty(),
        ]


def judge_each_kind_of_message_goes_to_its_side(seed, got):
    ready, is_same, replies, stop, is_quiet = got
    equal(ready, [True, True], "one message when ready, and no other")
    truth(is_same, "a request has its uid, its ids and its params")
    equal("".join(text for _, text, *_ in replies), "Hi 😀", "the text of the replies")
    equal([reply[0] for reply in replies], [5] * len(replies), "whose they are")
    ends = [reply[2] for reply in replies]
    equal(ends, [False] * (len(ends) - 1) + [True], "which is the last")
    equal(stop, [["AbortBackendMsg", 6, None]], "what an abort becomes")
    truth(is_quiet, "nothing else was answered")


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage() + str(record.exc_info or ""))


def deep(msg: Any, levels: int) -> Any:
    for _ in range(levels):
        msg = {"__type__": "BatchTokenizerMsg", "data": [msg]}
    return msg


def probe_a_worker_says_by_its_number_who_is_ready(seed):
    names = []
    for number in (-1, 0, 2):
        with office() as o:
            names.append(o.start(tokenizer_id=number))
    return names


def judge_a_worker_says_by_its_number_who_is_ready(seed, got):
    want = [f"{name} is ready" for name in ("detokenizer", "tokenizer 0", "tokenizer 2")]
    equal(got, want, "what is said when all is ready")


def probe_a_token_counts_no_prompt_unless_it_says_so(seed):
    msg = said(1, 5)
    return [msg.prompt_tokens, msg.cached_tokens, msg.at_end, msg.error]


def judge_a_token_counts_no_prompt_unless_it_says_so(seed, got):
    equal(got, [0, 0, False, None], "prompt and cached tokens, an end id, an error")


def probe_what_is_no_message_is_logged_without_its_text(seed):
    import msgpack

    from minisgl.message import BaseTokenizerMsg

    wrong = [
        b"secret",
        b"",
        msgpack.packb("secret"),
        msgpack.packb({"__type__": "secret"}),
        msgpack.packb({"__type__": "AbortMsg", "uid": "secret"}),
        msgpack.packb({**BaseTokenizerMsg.encoder(ask(1, "secret")), "more": "secret"}),
        msgpack.packb(BaseTokenizerMsg.encoder(ask(1, "secret")))[:-5],
        msgpack.packb({"__type__": "BatchTokenizerMsg", "data": [{"secret": 1}]}),
        msgpack.packb({"__type__": "StatsMsg", "running": "secret"}),
        msgpack.packb({"__type__": "StatsReply", "running": "secret"}),
        msgpack.packb(BaseTokenizerMsg.encoder(ask(1, [1, "secret"]))),
        msgpack.packb(BaseTokenizerMsg.encoder(ask(1, {"secret": 1}))),
        msgpack.packb(BaseTokenizerMsg.encoder(said(1, 5, logprobs=["secret"]))),
        msgpack.packb(deep({"secret": 1}, 400)),
        b"\x91" * 5000 + b"secret",
    ]
    with office() as o:
        o.start()
        kept = Kept()
        logging.getLogger("minisgl.tokenizer.server").addHandler(kept)
        for raw in wrong:
            o.inbox.socket.send(raw)
            o.inbox.put(said(1, tokens("a")[0]))
        replies = o.replies(len(wrong))
        o.inbox.put(ask(2, [{"role": "user"}]))
        o.inbox.put(ask(4, [5, -987654]))
        o.inbox.put(ask(3, "a"))
        reasons = [reply[3] for reply in o.replies(2)]
        return [len(wrong), replies, o.requests(1)[0][1], kept.lines, reasons[1]]


def judge_what_is_no_message_is_logged_without_its_text(seed, got):
    count, replies, served, lines, reason = got
    truth("-987654" in reason, "its client is told which id is wrong", reason)
    quoting = [line for line in lines if "987654" in line]
    equal(quoting, [], "lines with a part of a prompt that has no tokens")
    equal(replies, [[1, "a", False, None]] * count, "the replies to what came between")
    equal(served, 3, "the request that is served afterwards")
    truth(len(lines) >= count, "each is logged", lines)
    equal([line for line in lines if "secret" in line], [], "lines with the text of a message")


def probe_a_prompt_without_tokens_is_answered_with_the_reason(seed):
    with office() as o:
        o.start()
        o.inbox.put(ask(1, [{"role": "user"}]))
        o.inbox.put(ask(2, "a"))
        o.inbox.put(said(3, -1, True, error="the prompt is empty"))
        replies = {reply[0]: reply[1:] for reply in o.replies(2)}
        served = o.requests(1)
        return [replies[1], replies[3], served[0][:2], o.frontend.empty(), o.backend.empty()]


def judge_a_prompt_without_tokens_is_answered_with_the_reason(seed, got):
    bad, refusal, served, *quiet = got
    equal(bad[:2], ["", True], "text, and whether it is the last")
    truth("tokenized" in bad[2] and "template" in bad[2], "the reason, as a sentence", bad[2])
    equal(refusal, ["", True, "the prompt is empty"], "a refusal of the scheduler")
    equal(served, ["UserMsg", 2], "the next request")
    equal(quiet, [True, True], "nothing else was answered")


def probe_a_token_without_a_text_ends_its_request_alone(seed):
    with office() as o:
        o.start()
        o.inbox.put(said(1, -5))
        o.inbox.put(said(1, -5))
        o.inbox.put(said(2, tokens("a")[0]))
        return [o.replies(2), o.requests(2)]


def judge_a_token_without_a_text_ends_its_request_alone(seed, got):
    replies, stops = got
    equal([reply[0] for reply in replies], [1, 2], "who is answered")
    equal(replies[0][1:3], ["", True], "the request's only reply: text, and that it is the last")
    truth(bool(replies[0][3]), "it has an error", replies[0])
    equal(replies[1], [2, "a", False, None], "the other request")
    equal(stops, [["AbortBackendMsg", 1, None]] * 2, "what the scheduler is told each time")


@public_bug("B73")
def probe_tokens_after_an_abort_are_not_answered(seed):
    from minisgl.message import AbortMsg

    a, b = tokens("a")[0], tokens("b")[0]
    with office() as o:
        o.start()
        for msg in (said(1, a), AbortMsg(1), said(1, b), said(1, a, True), said(2, b, True)):
            o.inbox.put(msg)
        return [o.replies(2), o.requests(2), o.frontend.empty(), o.backend.empty()]


def judge_tokens_after_an_abort_are_not_answered(seed, got):
    equal(got[0], [[1, "a", False, None], [2, "b", True, None]], "the replies")
    again = [["AbortBackendMsg", 1, None]] * 2  # the request may have come behind its abort
    equal(got[1], again, "what the scheduler is told at the abort and at a token that is not last")
    truth(got[2] and got[3], "nothing else was answered or told")


def probe_what_comes_in_together_goes_out_together(seed):
    from minisgl.message import BatchTokenizerMsg

    a = tokens("a")[0]
    found = {}
    for local_bs in (1, 3, 100):
        with office() as o:
            for uid in range(7):  # they wait in the queue until the worker is there
                o.inbox.put(said(uid, a, True))
            o.start(local_bs=local_bs)
            sizes = [len(batch) for batch in o.get(o.frontend, 7)]
            o.inbox.put(BatchTokenizerMsg([said(8, a, True), ask(9, "a"), ask(10, "b")]))
            one = [[m.uid for m in batch] for batch in o.get(o.backend, 2)]
            found[str(local_bs)] = [sizes, one, o.replies(1)]
    return found


def judge_what_comes_in_together_goes_out_together(seed, got):
    for local_bs in (1, 3, 100):
        sizes, one, last = got[str(local_bs)]
        equal(sum(sizes), 7, f"replies with local_bs {local_bs}")
        truth(max(sizes) <= local_bs, f"at most {local_bs} go out together", sizes)
        equal(one, [[9, 10]], "the requests of a batch")
        equal(last, [[8, "a", True, None]], "the token of the same batch")
    truth(max(got["100"][0]) > 1, "what waits is taken together", got["100"][0])


def probe_settings_that_cannot_work_are_refused(seed):
    from minisgl.tokenizer import tokenize_worker

    fixed = {"tokenizer_path": checkpoint(MODEL), "create": True, "local_bs": 8}
    for name in ("addr", "backend_addr", "frontend_addr"):
        fixed[name] = f"inproc://never-{name}"
    wrong = {"model_source": "modelscope", "local_bs": 0}
    return {
        key: error_of(lambda key=key, value=value: tokenize_worker(**{**fixed, key: value}))
        for key, value in wrong.items()
    }


def judge_settings_that_cannot_work_are_refused(seed, got):
    refused(got["model_source"], "another model source", "modelscope", kind="ValueError")
    refused(got["local_bs"], "batches of nothing", "local_bs", kind="ValueError")


@public_bug("B79")
def probe_replies_say_what_they_count_for(seed):
    a, b = tokens("a")[0], tokens("b")[0]
    end = 2
    with office() as o:
        o.start()
        for msg in (
            said(1, a, prompt_tokens=9, cached_tokens=8),
            said(1, b, True, prompt_tokens=9, cached_tokens=8),
            said(2, a, prompt_tokens=5),
            said(2, end, True, at_end=True, prompt_tokens=5),
            said(3, a, prompt_tokens=5),
            said(3, end, prompt_tokens=5),
            said(3, end, True, prompt_tokens=5),
            said(4, -1, True, error="the prompt is empty"),
            said(5, -5, prompt_tokens=3),
        ):
            o.inbox.put(msg)
        o.inbox.put(ask(6, [-1]))
        return [facts(msg) for batch in o.get(o.frontend, 10) for msg in batch]


def judge_replies_say_what_they_count_for(seed, got):
    names = "uid, at_end, num_tokens, prompt_tokens, cached_tokens"
    equal(got[:2], [[1, False, 1, 9, 8]] * 2, f"two tokens, the last one counts: {names}")
    equal(got[2:4], [[2, False, 1, 5, 0], [2, True, 0, 5, 0]], f"a token and an end id: {names}")
    equal(got[4:7], [[3, False, 1, 5, 0]] * 3, f"end ids that don't end anything: {names}")
    equal([row[:3] for row in got[7:]], [[uid, False, 0] for uid in (4, 5, 6)], "errors count 0")


def probe_log_probabilities_come_with_their_tokens(seed):
    ids = tokens("a😀")
    with office() as o:
        o.start()
        for i, token in enumerate(ids):
            more = {"logprob_ids": [token, ids[0], 10**6], "logprobs": [-0.5, -1, -float(i)]}
            o.inbox.put(said(1, token, **more))
        o.inbox.put(said(2, ids[0], logprob_ids=[], logprobs=[]))
        o.inbox.put(said(3, ids[0]))
        replies = [msg for batch in o.get(o.frontend, len(ids) + 2) for msg in batch]
    shown = [
        msg.logprobs and [[each.token, each.data.hex(), each.logprob] for each in msg.logprobs]
        for msg in replies
    ]
    return [len(ids), shown]


def judge_log_probabilities_come_with_their_tokens(seed, got):
    count, shown = got
    equal(shown[-2:], [[], None], "an empty list, and what did not ask for any")
    of_tokens = shown[:-2]
    truth(len(of_tokens) == count > 2, "the character is in several tokens", count)
    equal("".join(each[0][1] for each in of_tokens), "a😀".encode().hex(), "the joined bytes")
    for i, (own, first, none) in enumerate(of_tokens):
        equal(own[0], bytes.fromhex(own[1]).decode(errors="replace"), "its text")
        equal([own[2], first, none], [-0.5, ["a", "61", -1], ["", "", -i]], "numbers, and the rest")


def probe_log_probabilities_that_do_not_fit_end_their_request_alone(seed):
    a = tokens("a")[0]
    with office() as o:
        o.start()
        o.inbox.put(said(1, a, logprob_ids=[a, a], logprobs=[-1.0]))
        o.inbox.put(said(2, a, logprob_ids=[-5], logprobs=[-1.0]))
        o.inbox.put(said(3, a, logprob_ids=[a], logprobs=[-1.0]))
        return [o.replies(3), o.requests(2)]


def judge_log_probabilities_that_do_not_fit_end_their_request_alone(seed, got):
    replies, stops = got
    equal([reply[:3] for reply in replies], [[1, "", True], [2, "", True], [3, "a", False]], "who")
    equal([reply[3] is None for reply in replies], [False, False, True], "who has no error")
    equal([stop[1] for stop in stops], [1, 2], "whose requests the scheduler stops")


def probe_statistics_and_ids_pass_through(seed):
    from dataclasses import asdict

    from minisgl.message import BatchTokenizerMsg, StatsMsg

    stats = StatsMsg(running=1, waiting=2, used_tokens=3, cached_tokens=4, total_tokens=5)
    with office() as o:
        o.start()
        o.inbox.put(BatchTokenizerMsg([stats, ask(1, [5, 10**6, 0]), ask(2, []), ask(3, [-1])]))
        (first, refusal) = [msg for batch in o.get(o.frontend, 2) for msg in batch]
        requests = o.requests(2)
    return [type(first).__name__, asdict(first), [refusal.uid, refusal.error], requests]


def judge_statistics_and_ids_pass_through(seed, got):
    names = ("running", "waiting", "used_tokens", "cached_tokens", "total_tokens")
    equal(got[:2], ["StatsReply", {name: i + 1 for i, name in enumerate(names)}], "the statistics")
    equal(got[2][0], 3, "whose ids are refused")
    truth("tokenized" in got[2][1] and "-1" in got[2][1], "the reason names the id", got[2][1])
    equal(got[3], [["UserMsg", 1, [5, 10**6, 0]], ["UserMsg", 2, []]], "the requests")


def probe_a_worker_that_is_told_to_exit_exits(seed):
    """SystemExit is what a handler of a signal raises, wherever the worker may be."""
    from minisgl.tokenizer.detokenize import DetokenizeManager
    from minisgl.tokenizer.tokenize import TokenizeManager
    from minisgl.utils import ZmqPullQueue, ZmqPushQueue

    def leave(*args: Any) -> None:
        raise SystemExit(1)

    ended, stopped = [], []

    def noting(kind: Any) -> Any:
        stop = kind.stop
        note = lambda self: (stopped.append(kind.__name__), stop(self))  # noqa: E731
        return mock.patch.object(kind, "stop", note)

    with (
        mock.patch.object(TokenizeManager, "tokenize", leave),
        mock.patch.object(DetokenizeManager, "detokenize", leave),
        noting(ZmqPullQueue),
        noting(ZmqPushQueue),
    ):
        for last in (ask(1, "a"), said(1, 5)):
            with office() as o:
                o.start()
                o.inbox.put(last)
                o.thread.join(20)
                ended.append([not o.thread.is_alive(), o.frontend.empty(), o.backend.empty()])
    return [ended, sorted(stopped)]


def judge_a_worker_that_is_told_to_exit_exits(seed, got):
    ended, stopped = got
    equal(ended, [[True] * 3] * 2, "it has ended, and nothing was answered")
    want = [*["ZmqPullQueue"] * 2, *["ZmqPushQueue"] * 4]
    equal(stopped, want, "the queues that each of two workers has closed")
