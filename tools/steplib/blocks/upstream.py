"""`upstream PATH::Symbol ...`: where the official code stands, with line-numbered links."""

from __future__ import annotations

from steplib import catalogue
from steplib.blocks.base import BlockError, Request


def render(request: Request) -> str:
    """One `upstream` box; each argument is a line in it."""
    if not request.args:
        raise BlockError("Name an upstream symbol: upstream minisgl/core.py::Req.")
    lines = [f"    - {_linked(target)}" for target in request.args]
    return '!!! upstream "mini-sglang"\n\n' + "\n".join(lines)


def _linked(target: str) -> str:
    symbol = target.removeprefix("python/")
    return f"[`{symbol}`]({catalogue.load().permalink(symbol)})"
