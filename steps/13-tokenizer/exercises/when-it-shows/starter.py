"""Your predictions of what a stream shows when; replace the two bodies."""

from __future__ import annotations


def pieces(tokens: list[bytes], at_end: bool) -> list[str]:
    """The piece of each message of a byte-level stream, from the bytes of each token.

    at_end: behind the tokens comes an end id, in a message of its own.
    """
    raise NotImplementedError("exercise 13: predict the pieces of a byte-level stream")


def run_pieces(run: bytes) -> list[str]:
    """The piece of each byte token of a SentencePiece stream, and of the token "b" behind them."""
    raise NotImplementedError("exercise 13: predict the pieces of a run of byte tokens")
