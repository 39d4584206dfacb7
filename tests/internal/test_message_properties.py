"""Random messages come back as they were, and random frames raise nothing but their two errors."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgpack
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minisgl.core import SamplingParams
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
    ExitMsg,
    MessageError,
    StatsMsg,
    StatsReply,
    TokenizeMsg,
    TokenLogprob,
    UserMsg,
    UserReply,
)
from minisgl.message.utils import DTYPES, TYPE
from minisgl.utils.mp import FrameError, _pack, _unpack

BASES: tuple[Any, ...] = (BaseBackendMsg, BaseTokenizerMsg, BaseFrontendMsg)
UIDS = st.integers(-(2**63), 2**64 - 1)
TEXTS = st.text()
PARAMS = st.builds(
    SamplingParams,
    temperature=st.floats(0, 1e30),
    top_k=st.just(-1) | st.integers(1, 2**31),
    top_p=st.floats(0, 1, exclude_min=True),
    ignore_eos=st.booleans(),
    max_tokens=st.integers(1, 2**31),
    seed=st.none() | UIDS,
    presence_penalty=st.floats(-2, 2),
    frequency_penalty=st.floats(-2, 2),
    top_logprobs=st.none() | st.integers(0, 20),
)
COUNTS = st.integers(0, 2**40)
STATS = dict.fromkeys(
    ("running", "waiting", "used_tokens", "cached_tokens", "total_tokens"), COUNTS
)
IDS = st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9).flatmap(
    lambda ids: st.sampled_from([torch.int32, torch.int64]).map(
        lambda dtype: torch.tensor(ids, dtype=dtype)
    )
)


def with_batches(messages: Any, batch: Any) -> Any:
    """Messages, batches of them, and batches of these."""
    return st.recursive(messages, lambda each: st.lists(each, max_size=3).map(batch), max_leaves=8)


CHAT = st.lists(st.dictionaries(TEXTS.filter(lambda key: key != TYPE), TEXTS))
TOKENS = st.builds(
    DetokenizeMsg,
    uid=UIDS,
    next_token=UIDS,
    finished=st.booleans(),
    error=st.none() | TEXTS,
    at_end=st.booleans(),
    prompt_tokens=COUNTS,
    cached_tokens=COUNTS,
    logprob_ids=st.none() | st.lists(UIDS),
    logprobs=st.none() | st.lists(st.floats(max_value=0)),
)
REQUESTS = st.builds(
    TokenizeMsg, uid=UIDS, text=TEXTS | CHAT | st.lists(UIDS), sampling_params=PARAMS
)
USERS = st.builds(UserMsg, uid=UIDS, input_ids=IDS, sampling_params=PARAMS)
ABORTS = st.builds(AbortBackendMsg, uid=UIDS)
BACKEND = with_batches(st.builds(ExitMsg) | USERS | ABORTS, BatchBackendMsg)
TOKENIZER = with_batches(
    TOKENS | REQUESTS | st.builds(AbortMsg, uid=UIDS) | st.builds(StatsMsg, **STATS),
    BatchTokenizerMsg,
)
LOGPROBS = st.builds(
    TokenLogprob, token=TEXTS, data=st.binary(max_size=9), logprob=st.floats(max_value=0)
)
REPLIES = st.builds(
    UserReply,
    uid=UIDS,
    incremental_output=TEXTS,
    finished=st.booleans(),
    error=st.none() | TEXTS,
    at_end=st.booleans(),
    num_tokens=st.integers(0, 1),
    prompt_tokens=COUNTS,
    cached_tokens=COUNTS,
    logprobs=st.none() | st.lists(LOGPROBS, max_size=3),
)
FRONTEND = with_batches(REPLIES | st.builds(StatsReply, **STATS), BatchFrontendMsg)


SENT = (
    BACKEND.map(lambda m: (0, m)) | TOKENIZER.map(lambda m: (1, m)) | FRONTEND.map(lambda m: (2, m))
)


@given(SENT)
@settings(max_examples=200, deadline=None)
def test_a_message_comes_back_as_it_was(sent: tuple[int, Any]) -> None:
    base, msg = BASES[sent[0]], sent[1]
    frame = _pack(base.encoder(msg))
    back = base.decoder(_unpack(frame))
    assert type(back) is type(msg)
    assert _pack(base.encoder(back)) == frame


def judged(raw: bytes) -> None:
    """Every kind of receiver either takes a frame or raises one of the two errors."""
    for base in BASES:
        with suppress(FrameError, MessageError):
            assert isinstance(base.decoder(_unpack(raw)), base)


@given(st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_random_bytes_raise_only_the_two_errors(raw: bytes) -> None:
    judged(raw)


@given(SENT, st.data())
@settings(max_examples=300, deadline=None)
def test_a_frame_with_changed_bytes_raises_only_the_two_errors(sent: Any, data: Any) -> None:
    raw = bytearray(_pack(BASES[sent[0]].encoder(sent[1])))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    judged(bytes(raw))
    judged(bytes(raw[: data.draw(st.integers(0, len(raw)))]))


NAMES = [
    *("UserMsg", "AbortBackendMsg", "BatchBackendMsg", "ExitMsg", "SamplingParams", "Tensor"),
    *("TokenizeMsg", "DetokenizeMsg", "AbortMsg", "BatchTokenizerMsg", "UserReply"),
    *("StatsMsg", "StatsReply", "TokenLogprob", "BatchFrontendMsg"),
]
KEYS = ["uid", "data", "input_ids", "sampling_params", "dtype", "shape", "text", "seed", TYPE]
KEYS += ["token", "logprob", "logprobs", "logprob_ids", "running", "finished"]
LEAVES = (
    st.none() | st.booleans() | UIDS | st.floats() | st.text(max_size=5) | st.binary(max_size=16)
    | st.sampled_from([*NAMES, *DTYPES, "O", "i4,i4", "U4"])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda each: (
        st.lists(each, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), each, max_size=4)
        | st.builds(
            lambda name, fields: {TYPE: name} | fields,
            st.sampled_from(NAMES),
            st.dictionaries(st.sampled_from(KEYS), each, max_size=4),
        )
    ),
    max_leaves=12,
)
TENSOR = st.fixed_dictionaries(
    {
        TYPE: st.just("Tensor"),
        "dtype": st.sampled_from([*DTYPES, "O", "U4", "complex64", ">i4", "i4,i4"]) | LEAVES,
        "shape": st.lists(st.integers(-2, 5) | st.integers(0, 2**63), max_size=9) | LEAVES,
        "data": st.binary(max_size=64) | LEAVES,
    }
)


@given(VALUES)
@settings(max_examples=500, deadline=None)
def test_random_maps_raise_only_the_two_errors(value: Any) -> None:
    judged(msgpack.packb(value))


@given(TENSOR)
@settings(max_examples=500, deadline=None)
def test_random_tensors_raise_only_the_two_errors(tensor: Any) -> None:
    params = BaseTokenizerMsg.encoder(TokenizeMsg(0, "", SamplingParams()))["sampling_params"]
    data = {TYPE: "UserMsg", "uid": 1, "input_ids": tensor, "sampling_params": params}
    judged(msgpack.packb(data))
