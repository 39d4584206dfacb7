"""Parsing by one thread at a time.

CPython 3.11 counts the depth of its parser for all threads together, and raises SystemError when
one thread is stopped within another's count.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def parsing_in_turns() -> Iterator[None]:
    """Inside, `ast.parse` waits for its turn, whoever calls it: this tool, coverage or others."""
    plain, turn = ast.parse, threading.RLock()

    def parse(*args: Any, **kwargs: Any) -> Any:
        with turn:
            return plain(*args, **kwargs)

    ast.parse = parse
    try:
        yield
    finally:
        ast.parse = plain
