"""Believes that the good part of a run stays readable."""

from __future__ import annotations

import codecs

MARK = "\ufffd"


def pieces(tokens: list[bytes], at_end: bool) -> list[str]:
    """The piece of each message of a byte-level stream, from the bytes of each token.

    at_end: behind the tokens comes an end id, in a message of its own.
    """
    shown, sent = [], 0
    messages = [*tokens, b""] if at_end else tokens
    for count in range(1, len(messages) + 1):
        text = b"".join(messages[:count]).decode(errors="replace")
        if count < len(messages):
            text = text.removesuffix(MARK)
        shown.append(text[sent:])
        sent = len(text)
    return shown


def run_pieces(run: bytes) -> list[str]:
    """The piece of each byte token of a SentencePiece stream, and of the token "b" behind them."""
    wrong = first_wrong(run)
    if wrong is not None:
        late = len(run) - wrong - 1
        return [""] * wrong + [run[: wrong + 1].decode(errors="replace")] + [MARK] * late + ["b"]
    try:
        text = run.decode()
    except UnicodeDecodeError:  # it ends in the middle of a character
        text = MARK * len(run)
    return [""] * len(run) + [text + "b"]


def first_wrong(run: bytes) -> int | None:
    """The place of the first byte behind which no bytes whatever could make the run readable."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for i in range(len(run)):
        try:
            decoder.decode(run[i : i + 1])
        except UnicodeDecodeError:
            return i
    return None
