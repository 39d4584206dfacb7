"""The text and the bytes of single tokens, as lists of log-probabilities show them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TokenTexts:
    """What each token adds to a text; worked out once for each id.

    Joined, the bytes of an answer's tokens are those of its text; only a space that the decoder
    strips where a text begins is still part of its token here.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.is_byte_level = self._joined("a", "Ġ", "a") == "a a"
        self._known: dict[int, tuple[str, bytes]] = {}

    def __getitem__(self, token_id: int) -> tuple[str, bytes]:
        """Return a token's text, with U+FFFD for half a character, and its bytes.

        Both are empty for an id that has no token.
        """
        if token_id not in self._known:
            data = self._data(token_id)
            self._known[token_id] = data.decode(errors="replace"), data
        return self._known[token_id]

    def _data(self, token_id: int) -> bytes:
        token = self.tokenizer.convert_ids_to_tokens(token_id)
        if not isinstance(token, str):
            return b""
        if (byte := byte_of(self.tokenizer, token_id, token)) is not None:
            return bytes([byte])
        if not self.is_byte_level:  # behind another token a space is not stripped
            return self._joined("a", token).removeprefix("a").encode()
        if all(char in ALPHABET for char in token):
            return bytes(ALPHABET[char] for char in token)
        return token.encode()  # a token that was added as it is, such as one with spaces

    def _joined(self, *tokens: str) -> str:
        return str(self.tokenizer.convert_tokens_to_string(list(tokens)))


def byte_of(tokenizer: PreTrainedTokenizerBase, token_id: int, token: str) -> int | None:
    """Return the byte that a token such as <0x0A> stands for; None for any other token."""
    if re.fullmatch("<0x[0-9A-F]{2}>", token) and tokenizer.decode([token_id]) != token:
        return int(token[3:5], 16)
    return None


def _alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level token stands for.

    What can be seen in Latin-1 stands for itself; the other bytes have the characters from U+0100.
    """
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(seen))
    return {chr(byte): byte for byte in seen} | {
        chr(0x100 + i): byte for i, byte in enumerate(others)
    }


ALPHABET = _alphabet()
