"""Result files: what was measured, by which command, on what and when."""

from __future__ import annotations

import datetime
import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
Cell = str | int | float


def hardware() -> str:
    """Processor, cores, and the versions that decide the speed."""
    import torch
    import transformers

    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        name = names[0].partition(":")[2].strip() if names else name
    cores = f"{os.cpu_count()} cores"
    return f"{name}, {cores}, torch {torch.__version__}, transformers {transformers.__version__}"


def write(name: str, command: str, columns: list[str], rows: list[list[Cell]]) -> Path:
    """Write the result called name, in whole or not at all, and return its file."""
    result = {
        "command": command,
        "hardware": hardware(),
        "date": datetime.date.today().isoformat(),
        "columns": columns,
        "rows": rows,
    }
    file = RESULTS / f"{name}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def show(columns: list[str], rows: list[list[Cell]]) -> None:
    """Print the rows under their columns."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row))
    Console().print(table)
