"""The process between the server and the scheduler, where text and tokens meet."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Iterator
from typing import TypeVar

import torch

from minisgl.message import (
    AbortBackendMsg,
    AbortMsg,
    BaseBackendMsg,
    BaseFrontendMsg,
    BaseTokenizerMsg,
    BatchBackendMsg,
    BatchFrontendMsg,
    BatchTokenizerMsg,
    DetokenizeMsg,
    StatsMsg,
    StatsReply,
    TokenizeMsg,
    TokenLogprob,
    UserMsg,
    UserReply,
)
from minisgl.utils import ZmqPullQueue, ZmqPushQueue, init_logger, load_tokenizer

from .detokenize import DetokenizeManager
from .token_text import TokenTexts
from .tokenize import TokenizeManager

logger = init_logger(__name__)

T = TypeVar("T")


def _unwrap_msg(msg: BaseTokenizerMsg) -> Iterator[BaseTokenizerMsg]:
    if isinstance(msg, BatchTokenizerMsg):
        for inner in msg.data:
            yield from _unwrap_msg(inner)
    else:
        yield msg


class _Worker:
    """What a worker answers to messages: lists of messages for the scheduler and the server."""

    def __init__(self, tokenizer_path: str) -> None:
        tokenizer = load_tokenizer(tokenizer_path)
        self.tokenizer, self.detokenizer = TokenizeManager(tokenizer), DetokenizeManager(tokenizer)
        self.texts = TokenTexts(tokenizer)
        self.backend: list[BaseBackendMsg] = []
        self.frontend: list[BaseFrontendMsg] = []

    def process(self, msg: BaseTokenizerMsg) -> None:
        if isinstance(msg, TokenizeMsg):
            self._tokenize(msg)
        elif isinstance(msg, DetokenizeMsg):
            self._detokenize(msg)
        elif isinstance(msg, AbortMsg):
            self.detokenizer.abort(msg.uid)
            self.backend.append(AbortBackendMsg(msg.uid))
        elif isinstance(msg, StatsMsg):
            self.frontend.append(StatsReply(**vars(msg)))
        else:
            logger.error("a %s is not for a tokenizer; it is dropped", type(msg).__name__)

    def _tokenize(self, msg: TokenizeMsg) -> None:
        try:
            (ids,) = self.tokenizer.tokenize([msg])
        except Exception as error:  # a client's text must not stop what serves the others
            logger.warning("request %d has no tokens: %s", msg.uid, type(error).__name__)
            why = str(error) if isinstance(error, ValueError) else "it is not what a prompt can be"
            self._fail(msg.uid, f"the prompt can't be tokenized: {why}")
        else:
            self.backend.append(UserMsg(msg.uid, ids, msg.sampling_params))

    def _detokenize(self, msg: DetokenizeMsg) -> None:
        is_aborted = msg.uid in self.detokenizer.aborted
        try:
            (text,) = self.detokenizer.detokenize([msg])
            logprobs = None if msg.logprobs is None or is_aborted else self._logprobs(msg)
        except Exception as error:
            logger.error("request %d has no text: %s", msg.uid, type(error).__name__)
            self.detokenizer.abort(msg.uid)
            self.backend.append(AbortBackendMsg(msg.uid))
            self._fail(msg.uid, "a token of the answer has no text")
        else:
            if not is_aborted:
                self.frontend.append(_reply(msg, text, logprobs))
            elif not msg.finished:  # where several tokenize, an abort may overtake its request
                self.backend.append(AbortBackendMsg(msg.uid))

    def _logprobs(self, msg: DetokenizeMsg) -> list[TokenLogprob]:
        pairs = zip(msg.logprob_ids or [], msg.logprobs or [], strict=True)
        return [TokenLogprob(*self.texts[token], logprob) for token, logprob in pairs]

    def _fail(self, uid: int, error: str) -> None:
        self.frontend.append(UserReply(uid, "", True, error))


def _reply(msg: DetokenizeMsg, text: str, logprobs: list[TokenLogprob] | None) -> UserReply:
    is_token = msg.error is None and not msg.at_end
    return UserReply(
        msg.uid,
        text,
        msg.finished,
        msg.error,
        msg.at_end,
        int(is_token),
        msg.prompt_tokens,
        msg.cached_tokens,
        logprobs,
    )


def _receive(queue: ZmqPullQueue[BaseTokenizerMsg], limit: int) -> Iterator[BaseTokenizerMsg]:
    """Wait for a message; yield it and those that are there already, at most limit."""
    for i in range(limit):
        if i and queue.empty():
            return
        raw = queue.get_raw()
        try:
            yield from _unwrap_msg(queue.decode(raw))
        except Exception as error:  # whose own text may quote the message
            logger.error("%d bytes are no message: %s", len(raw), type(error).__name__)


def _hand_on(queue: ZmqPushQueue[T], msgs: list[T], batch: type[T]) -> None:
    if msgs:
        queue.put(msgs[0] if len(msgs) == 1 else batch(msgs))  # type: ignore[call-arg]


@torch.inference_mode()
def tokenize_worker(
    *,
    tokenizer_path: str,
    addr: str,
    create: bool,
    backend_addr: str,
    frontend_addr: str,
    local_bs: int,
    tokenizer_id: int = -1,
    model_source: str = "huggingface",
    ack_queue: mp.Queue[str] | None = None,
) -> None:
    """Serve until interrupted: what comes from addr is answered to the other two.

    A TokenizeMsg becomes a UserMsg for backend_addr, an AbortMsg an AbortBackendMsg; a
    DetokenizeMsg becomes a UserReply for frontend_addr, a StatsMsg a StatsReply. What comes in
    together, at most local_bs messages, goes out as one batch. create: addr is bound here.
    ack_queue gets one message when all is ready. A prompt that can't be tokenized is answered by a
    UserReply with an error; what is no message at all is logged, without its text, and dropped.
    Raises ValueError for a local_bs below 1 and for a model_source other than huggingface.
    """
    if local_bs < 1:
        raise ValueError(f"local_bs must be at least 1, not {local_bs}")
    if model_source != "huggingface":
        raise ValueError(f"model_source is huggingface; {model_source!r} is not supported")
    worker = _Worker(tokenizer_path)
    inbox = ZmqPullQueue(addr, create, BaseTokenizerMsg.decoder)
    backend = ZmqPushQueue(backend_addr, False, BaseBackendMsg.encoder)
    frontend = ZmqPushQueue(frontend_addr, False, BaseFrontendMsg.encoder)
    if ack_queue is not None:
        name = f"tokenizer {tokenizer_id}" if tokenizer_id >= 0 else "detokenizer"
        ack_queue.put(f"{name} is ready")
    try:
        while True:
            worker.backend, worker.frontend = [], []
            for msg in _receive(inbox, local_bs):
                worker.process(msg)
            _hand_on(backend, worker.backend, BatchBackendMsg)
            _hand_on(frontend, worker.frontend, BatchFrontendMsg)
    except KeyboardInterrupt:
        logger.info("tokenizer %d stops", tokenizer_id)
    finally:
        for queue in (inbox, backend, frontend):
            queue.stop()
