"""Pages made of templates: whatever is put in is escaped, and a missing value is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def templates(folder: Path, **more: Any) -> Environment:
    """The templates of a folder. more: further settings of jinja2's Environment."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **more,
    )
