"""`measured NAME`: a table from a committed result in tools/bench/results, never measured anew.

A result is a JSON object with `command`, `hardware`, `date`, `columns` (names) and `rows` (lists
of cells as long as `columns`; numbers as measured). `note` is optional.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from steplib.blocks.base import BlockError, Request, table

TEXTS = ("command", "hardware", "date")


def render(request: Request) -> str:
    """The table, with how, where and when it was measured below it."""
    if len(request.args) != 1:
        raise BlockError("Name one result: measured NAME, for tools/bench/results/NAME.json.")
    file = request.book.root / "tools" / "bench" / "results" / f"{request.args[0]}.json"
    result = _loaded(file)
    rows = [[_cell(value) for value in row] for row in result["rows"]]
    below = f"`{result['command']}` · {result['hardware']} · {result['date']}"
    return table(list(result["columns"]), rows) + f"\n\n<small>{below}</small>"


def _loaded(file: Path) -> dict[str, Any]:
    where = f"tools/bench/results/{file.name}"
    if not file.is_file():
        raise BlockError(f"{where} is missing; run the benchmark that writes it.")
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise BlockError(f"{where} is not valid JSON; run its benchmark again.") from None
    lacking = [key for key in (*TEXTS, "columns", "rows") if key not in result]
    if lacking:
        raise BlockError(f"{where} lacks {', '.join(lacking)}; run its benchmark again.")
    if any(len(row) != len(result["columns"]) for row in result["rows"]):
        raise BlockError(f"{where} has a row that is not as long as its columns.")
    return dict(result)


def _cell(value: object) -> str:
    return f"{value:,.3g}" if isinstance(value, float) and abs(value) < 1000 else str(value)
