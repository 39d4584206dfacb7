"""Signatures from the catalogue, written as a source would."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def heads(facts: dict[str, Any]) -> dict[str, str]:
    """Decorators and signature of each symbol of a catalogue's file, by dotted name."""
    return dict(_heads(facts["symbols"]))


def _heads(symbols: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for symbol in symbols:
        name = symbol["name"]
        if "fields" not in symbol:
            yield name, _head(symbol) if "signature" in symbol else name
            continue
        bases = f"({', '.join(symbol['bases'])})" if symbol["bases"] else ""
        yield name, _marks(symbol) + f"class {name}{bases}"
        yield from ((f"{name}.{method['name']}", _head(method)) for method in symbol["methods"])
        yield from ((f"{name}.{field['name']}", _field(field)) for field in symbol["fields"])


def _head(symbol: dict[str, Any]) -> str:
    word = "async def" if symbol["async"] else "def"
    return _marks(symbol) + f"{word} {symbol['name']}{symbol['signature']}"


def _field(field: dict[str, Any]) -> str:
    default = "" if field["default"] is None else f" = {field['default']}"
    return f"{field['name']}: {field['type']}{default}"


def _marks(symbol: dict[str, Any]) -> str:
    return "".join(f"@{mark}\n" for mark in symbol["decorators"])
