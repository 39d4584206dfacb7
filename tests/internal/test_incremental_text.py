"""Random streams of tokens through the detokenizer, beside the tokenizer's own decode."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from minisgl.tokenizer.detokenize import LONGEST_RUN, LONGEST_WINDOW, DetokenizeManager
from minisgl.utils import load_tokenizer
from pairs import checkpoint
from test_ch13_text import ENDLESS, in_bytes, message, sentencepiece, stream

NAMES = (
    "tiny-qwen2",
    "tiny-qwen3",
    "tiny-qwen3-moe",
    "tiny-llama3",
    "tiny-mistral",
    "smollm2-135m",
    "sentencepiece",
)


@cache
def tokenizer(name: str) -> PreTrainedTokenizerBase:
    if name == "sentencepiece":
        return PreTrainedTokenizerFast(tokenizer_object=sentencepiece())
    return load_tokenizer(checkpoint(name))


def ids_of(name: str) -> st.SearchStrategy[list[int]]:
    """Any ids, whole texts, and texts in single bytes that are cut anywhere."""
    made = tokenizer(name)
    any_id = st.integers(0, len(made) + 2).map(lambda i: [i])
    text = st.text(max_size=8).map(lambda text: made.encode(text, add_special_tokens=False))
    data = st.one_of(st.binary(max_size=6), st.text(max_size=3).map(str.encode))
    lone = data.map(lambda data: in_bytes(name, data))
    cut = st.tuples(lone, st.integers(0, 12)).map(lambda drawn: drawn[0][: drawn[1]])
    return st.lists(st.one_of(any_id, text, lone, cut), min_size=1, max_size=24).map(
        lambda parts: [token for part in parts for token in part] or [0]
    )


def decoded(name: str, ids: list[int]) -> str:
    return str(tokenizer(name).decode(ids, clean_up_tokenization_spaces=False))


def for_each_tokenizer(check: Callable[[str, st.DataObject], None]) -> Callable[..., None]:
    drawn = settings(max_examples=150, deadline=None)(given(data=st.data())(check))
    return pytest.mark.parametrize("name", NAMES)(drawn)


@for_each_tokenizer
def test_joined_pieces_are_the_decoded_whole(name: str, data: st.DataObject) -> None:
    ids = data.draw(ids_of(name))
    manager = DetokenizeManager(tokenizer(name))
    pieces, widest = stream(manager, ids)
    longest = max(map(len, bytes_runs(manager, ids)), default=0)
    if longest < LONGEST_RUN:  # a longer run is handed on before it is known to be whole
        assert "".join(pieces) == decoded(name, ids)
    assert widest <= LONGEST_WINDOW and not manager.decode_map


def bytes_runs(manager: DetokenizeManager, ids: list[int]) -> list[list[int]]:
    """The runs of byte tokens; ids in no vocabulary don't end one."""
    runs: list[list[int]] = [[]]
    for token in ids:
        if token in manager._bytes:
            runs[-1].append(token)
        elif manager.tokenizer.convert_ids_to_tokens(token) is not None:
            runs.append([])
    return runs


@for_each_tokenizer
def test_what_was_shown_is_never_taken_back(name: str, data: st.DataObject) -> None:
    ids = data.draw(ids_of(name))[:LONGEST_RUN]
    pieces, _ = stream(DetokenizeManager(tokenizer(name)), ids)
    whole = decoded(name, ids)
    for shown in accumulate(pieces):
        assert whole.startswith(shown)


@for_each_tokenizer
def test_a_text_never_shows_a_broken_character(name: str, data: st.DataObject) -> None:
    text = data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
    ids = tokenizer(name).encode(text.replace("\ufffd", ""), add_special_tokens=False) or [0]
    pieces, _ = stream(DetokenizeManager(tokenizer(name)), ids)
    if "\ufffd" not in decoded(name, ids):
        assert "\ufffd" not in "".join(pieces)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_streams_side_by_side_don_t_meet(data: st.DataObject) -> None:
    manager = DetokenizeManager(tokenizer("tiny-qwen3"))
    streams = data.draw(st.lists(ids_of("tiny-qwen3"), min_size=2, max_size=4))
    left = {uid: list(ids) for uid, ids in enumerate(streams)}
    texts = dict.fromkeys(left, "")
    while left:
        uids = data.draw(st.lists(st.sampled_from(sorted(left)), min_size=1, unique=True))
        msgs = [message(uid, left[uid].pop(0), not left[uid]) for uid in uids]
        for msg, piece in zip(msgs, manager.detokenize(msgs), strict=True):
            texts[msg.uid] += piece
        left = {uid: ids for uid, ids in left.items() if ids}
    assert texts == {uid: decoded("tiny-qwen3", ids) for uid, ids in enumerate(streams)}
    assert not manager.decode_map


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("name", NAMES)
def test_streams_of_lone_bytes_flow(name: str, kind: str) -> None:
    ids = in_bytes(name, ENDLESS[kind]) * 2000
    if not ids:
        pytest.skip("this tokenizer has no token for that byte")
    pieces, widest = stream(DetokenizeManager(tokenizer(name)), ids[:2000])
    assert "".join(pieces) == decoded(name, ids[:2000])
    assert widest <= LONGEST_WINDOW and sum(map(len, pieces[-8:])) <= 16
