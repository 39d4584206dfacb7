"""The process of an answer that is kept apart: it gets arguments, and gives plain data back.

`python -I apart_child.py REQUESTS REPLIES`, two open pipes; the rules of isolation.py hold here.
"""

from __future__ import annotations

import importlib
import io
import json
import pickle
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from steplib.apart import received, sent  # noqa: E402
from steplib.isolation import Guard  # noqa: E402
from steplib.jobs import described  # noqa: E402

del sys.path[0]
_MOST = 100_000  # items that are taken of what may have no end
_KINDS = {"list": list, "tuple": tuple, "dict": dict, "set": set | frozenset}


def main() -> None:
    """Answer requests until they end."""
    requests, replies = map(int, sys.argv[1:3])
    answers = _Answers(pickle.loads(received(requests) or b""))
    while (raw := received(requests)) is not None:
        sent(replies, json.dumps(answers.reply(raw)).encode())


class _Answers:
    """kept: the objects that the other side has numbers of."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.kept: list[Any] = []
        self.guard = Guard(job["tree"], job["scratch"], job["root"])
        self.guard.install()

    def reply(self, raw: bytes) -> dict[str, Any]:
        """The value, or what was raised."""
        try:
            told = self._done(_Unpickler(raw, self.kept).load())
        except BaseException as error:
            told = {"error": described(error, self.job)}
        return {**told, "violations": self.guard.violations}

    def _done(self, request: Any) -> dict[str, Any]:
        what, target, *rest = request
        if what == "call":
            args, named = rest
            return {"value": self._encoded(target(*args, **named))}
        module = importlib.import_module(self.job["name"])
        if not hasattr(module, target):
            return {"lacks": f"module {module.__name__!r} has no attribute {target!r}"}
        return {"value": self._encoded(getattr(module, target))}

    def _encoded(self, value: Any) -> Any:
        """Scalars as they are; the rest as a kind, its items, and a number where it isn't plain."""
        if value is None or type(value) in (bool, int, float, str):
            return value
        kind = next((k for k, it in _KINDS.items() if isinstance(value, it)), None)
        told: dict[str, Any] = {"is": kind or "thing", "type": type(value).__name__}
        if kind == "dict":
            told["of"] = [[self._encoded(k), self._encoded(v)] for k, v in value.items()]
        elif kind is None and callable(value):
            told["is"] = "call"
        elif kind is not None or isinstance(value, Iterable):
            told["is"] = kind or "items"
            told["of"] = [self._encoded(item) for item in islice(value, _MOST)]
        if type(value) not in (list, tuple, dict, set, frozenset):
            told["kept"] = len(self.kept)
            self.kept.append(value)
        return told


class _Unpickler(pickle.Unpickler):
    def __init__(self, raw: bytes, kept: list[Any]) -> None:
        super().__init__(io.BytesIO(raw))
        self.kept = kept

    def persistent_load(self, number: int) -> Any:
        return self.kept[number]


if __name__ == "__main__":
    main()
