"""Keeps an answer away from what is measured: it runs in a process of its own (apart_child.py).

Runs inside the child; a stand-in takes the module's place. Arguments go out pickled. Results come
back as JSON, so that nothing of the answer ever runs beside the measuring.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

_CHILD = Path(__file__).with_name("apart_child.py")
_HEAD = 8  # bytes that tell how long a message is
_LONGEST = 64 << 20
_PR_SET_DUMPABLE = 4
_FIELDS = ("error", "message", "place", "trace")


class Elsewhere(Exception):
    """What the answer raised in its own process. described: as jobs.py describes an error."""

    def __init__(self, described: dict[str, str]) -> None:
        super().__init__(described["message"])
        self.described = described


class _Kept:
    """Stands for an object that stays in the other process, under the number `kept`."""

    kept: int


class _List(list[Any], _Kept): ...


class _Tuple(tuple[Any, ...], _Kept): ...


class _Dict(dict[Any, Any], _Kept): ...


class _Items(_Kept):
    items: list[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class _Callable(_Kept):
    ask: Callable[..., Any]

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.ask("call", self, args, named)


_PLAIN: dict[str, Any] = {"list": list, "tuple": tuple, "dict": dict, "set": set}
_SUBCLASSED: dict[str, Any] = {"list": _List, "tuple": _Tuple, "dict": _Dict}
_OTHERS: dict[str, type[_Kept]] = {"call": _Callable, "items": _Items, "thing": _Kept}


def keep(name: str, job: dict[str, Any], violations: list[str]) -> None:
    """Start the answer's process, and put the stand-in where `import name` finds it.

    violations: what the answer tries in spite of the rules is added.
    """
    hide(True)
    told = {key: job[key] for key in ("tree", "scratch", "root")}
    sys.modules[name] = _StandIn(name, _Line({"name": name, **told}, violations))


def hide(is_hidden: bool) -> None:
    """Whether other processes of this user are kept from this one's memory and pipes; on Linux."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, int(not is_hidden), 0, 0, 0)


class _StandIn(ModuleType):
    def __init__(self, name: str, line: _Line) -> None:
        super().__init__(name)
        self.__file__ = os.path.join(line.job["scratch"], f"{name}.py")
        self._line = line

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._line.ask("get", name)


class _Line:
    """The two pipes to the answer's process."""

    def __init__(self, job: dict[str, Any], violations: list[str]) -> None:
        self.job, self.violations = job, violations
        theirs, self.out = os.pipe()
        self.back, reply = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", str(_CHILD), str(theirs), str(reply)],
            stdin=subprocess.DEVNULL, pass_fds=(theirs, reply),
        )  # fmt: skip
        os.close(theirs)
        os.close(reply)
        self._tell(job)

    def ask(self, *request: Any) -> Any:
        """One request, answered; Elsewhere for what was raised there."""
        self._tell(request)
        raw = received(self.back)
        if raw is None:
            told = f"{self.job['name']}.py ended the process that it ran in"
            raise Elsewhere({"error": "SystemExit", "message": told, "place": "", "trace": ""})
        reply = json.loads(raw)
        self.violations += [v for v in map(str, reply["violations"]) if v not in self.violations]
        if "error" in reply:
            raise Elsewhere({field: str(reply["error"][field]) for field in _FIELDS})
        if "lacks" in reply:
            raise AttributeError(str(reply["lacks"]))
        return self._decoded(reply["value"])

    def _tell(self, request: Any) -> None:
        raw = io.BytesIO()
        _Pickler(raw).dump(request)
        with suppress(BrokenPipeError):  # it is gone; received says so
            sent(self.out, raw.getvalue())

    def _decoded(self, raw: Any) -> Any:
        """The value of a reply: copies of plain data, and stand-ins for everything else."""
        if not isinstance(raw, dict):
            return raw
        kind, inner = raw["is"], raw.get("of", [])
        if kind == "dict":
            inner = [(self._decoded(key), self._decoded(value)) for key, value in inner]
        else:
            inner = [self._decoded(item) for item in inner]
        if "kept" not in raw:
            return _PLAIN[kind](inner)
        if kind in _SUBCLASSED:
            made = _SUBCLASSED[kind](inner)
        else:
            made = type(raw["type"], (_OTHERS[kind],), {})()
            made.items, made.ask = inner, self.ask
        made.kept = int(raw["kept"])
        return made


class _Pickler(pickle.Pickler):
    def persistent_id(self, it: Any) -> int | None:
        return it.kept if isinstance(it, _Kept) else None


def sent(fd: int, data: bytes) -> None:
    """Write one message."""
    raw = len(data).to_bytes(_HEAD, "big") + data
    while raw:
        raw = raw[os.write(fd, raw) :]


def received(fd: int) -> bytes | None:
    """Read one message; None at the end."""
    head = _read(fd, _HEAD)
    if head is None or (length := int.from_bytes(head, "big")) > _LONGEST:
        return None
    return _read(fd, length)


def _read(fd: int, length: int) -> bytes | None:
    raw = bytearray()
    while len(raw) < length:
        piece = os.read(fd, length - len(raw))
        if not piece:
            return None
        raw += piece
    return bytes(raw)
