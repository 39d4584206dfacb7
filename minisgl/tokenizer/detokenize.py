"""Tokens into text, piece by piece, without ever showing half a character."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .token_text import byte_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from minisgl.message import DetokenizeMsg

WINDOW = 8
"""Tokens that are decoded again beside a new one; a character has at most 4 bytes."""
LONGEST_RUN = 32
"""Byte tokens in a row whose text is held back until a token of another kind follows."""
LONGEST_WINDOW = 64
"""A window of this length is cut wherever that is possible."""
REMEMBERED_ABORTS = 10_000
"""Aborted requests whose late tokens are known and dropped."""
UNREADABLE = "\ufffd"
"""What a decoder puts in place of bytes that are no character, or not yet one."""


@dataclass
class DecodeStatus:
    """A request's last tokens, their text, and how many of its characters have been sent."""

    decoded_ids: list[int]
    decoded_str: str
    sent_offset: int


class DetokenizeManager:
    """Turns each request's tokens into pieces of text.

    Joined, the pieces of a request are what the tokenizer makes of all its ids at once, special
    tokens included and spaces left as they are. decode_map: for each running request, what is kept
    of it. aborted: the requests whose tokens no longer count, oldest first.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.decode_map: dict[int, DecodeStatus] = {}
        self.aborted: dict[int, None] = {}
        self._bytes = _byte_tokens(tokenizer)

    def detokenize(self, msgs: list[DetokenizeMsg]) -> list[str]:
        """Return what each message adds to its request's text, in order; "" for no text yet.

        The last message of a request also brings what was held back, and ends its state. An end
        id that ended its request, a refused request and an aborted one have no text.
        """
        return [self._next_piece(msg) for msg in msgs]

    def abort(self, uid: int) -> None:
        """Forget request uid, and drop the tokens that still come for it."""
        self.decode_map.pop(uid, None)
        self.aborted[uid] = None
        if len(self.aborted) > REMEMBERED_ABORTS:
            del self.aborted[next(iter(self.aborted))]

    def _next_piece(self, msg: DetokenizeMsg) -> str:
        if msg.uid in self.aborted:
            if msg.finished:
                del self.aborted[msg.uid]
            return ""
        status = self.decode_map.setdefault(msg.uid, DecodeStatus([], "", 0))
        if msg.finished:
            del self.decode_map[msg.uid]
        if msg.error is not None:
            return ""
        if not msg.at_end:
            self._append(status, msg.next_token)
        settled = status.decoded_str if msg.finished else self._settled(status)
        piece = settled[status.sent_offset :]
        status.sent_offset += len(piece)
        if len(status.decoded_ids) > 2 * WINDOW:
            self._shorten(status)
        return piece

    def _append(self, status: DecodeStatus, token: int) -> None:
        ids, text = status.decoded_ids, self._decode([*status.decoded_ids, token])
        if text == status.decoded_str and not self._decode([token]):
            is_first = not text and len(ids) < LONGEST_WINDOW  # as a space that may be stripped
            ends_run = bool(ids) and ids[-1] in self._bytes
            if self.tokenizer.convert_ids_to_tokens(token) is None or not (is_first or ends_run):
                return  # no text, and nothing that it could change: the window needn't grow
        ids.append(token)
        status.decoded_str = text

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=False))

    def _byte_run(self, ids: list[int]) -> bytes:
        """Return what the byte tokens at the end stand for."""
        first = len(ids)
        while first and ids[first - 1] in self._bytes:
            first -= 1
        return bytes(self._bytes[i] for i in ids[first:])

    def _settled(self, status: DecodeStatus) -> str:
        """Return the text up to where no later token can change it."""
        ids, text = status.decoded_ids, status.decoded_str
        if not (run := self._byte_run(ids)):
            # Of bytes that may yet become a character a decoder makes one mark, at the end.
            return text.removesuffix(UNREADABLE)
        readable, is_spoiled = _read(run)
        if is_spoiled:
            return text
        held = len(run) if len(run) < LONGEST_RUN else len(run) - readable
        return self._decode(ids[: len(ids) - held])

    def _shorten(self, status: DecodeStatus) -> None:
        """Keep the last tokens only, if what follows is read in the same way behind them."""
        ids, known = status.decoded_ids, status.decoded_str
        run = self._byte_run(ids)
        readable, is_spoiled = _read(run)
        if is_spoiled:  # the wrong byte and the one before it spoil what follows just as well
            end = len(ids) - len(run) + readable + 1
            status.decoded_ids = ids[max(end - 2, len(ids) - len(run)) : end]
            status.decoded_str = self._decode(status.decoded_ids)
            status.sent_offset = len(status.decoded_str)
            return
        unsent = known[status.sent_offset :]
        for start in range(len(ids) - WINDOW, len(ids) - WINDOW - 4, -1):
            text = self._decode(ids[start:])
            if len(text) > len(unsent) and (known.endswith(text) or len(ids) > LONGEST_WINDOW):
                status.decoded_ids, status.decoded_str = ids[start:], text
                status.sent_offset = len(text) - len(unsent)
                return


def _byte_tokens(tokenizer: PreTrainedTokenizerBase) -> dict[int, int]:
    """Return the tokens that stand for one byte each, such as <0x0A>, and their bytes.

    Decoders read a run of them as a whole: a single wrong byte spoils all of it.
    """
    vocab = tokenizer.get_vocab().items()
    return {i: b for token, i in vocab if (b := byte_of(tokenizer, i, token)) is not None}


def _read(run: bytes) -> tuple[int, bool]:
    """Return how many bytes are whole characters or, if one is wrong, come before it; and if so."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for i in range(len(run)):
        try:
            decoder.decode(run[i : i + 1])
        except UnicodeDecodeError:
            return i, True
    return len(run) - len(decoder.getstate()[0]), False
