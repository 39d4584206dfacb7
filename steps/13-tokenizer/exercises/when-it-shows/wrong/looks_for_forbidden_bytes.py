"""Believes that a byte is wrong if it stands where its kind can't stand."""

from __future__ import annotations

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
        return [""] * wrong + [MARK * (wrong + 1)] + [MARK] * late + ["b"]
    try:
        text = run.decode()
    except UnicodeDecodeError:  # it ends in the middle of a character
        text = MARK * len(run)
    return [""] * len(run) + [text + "b"]


def first_wrong(run: bytes) -> int | None:
    """The place of the first byte behind which no bytes whatever could make the run readable."""
    missing = 0
    for i, byte in enumerate(run):
        if (byte & 0xC0 == 0x80) != (missing > 0) or byte >= 0xF8:
            return i
        if missing:
            missing -= 1
        else:
            missing = (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
    return None
