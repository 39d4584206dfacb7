"""The catalogue made anew from a checkout, in the form that data/interface.json has."""

from __future__ import annotations

import json

from steplib.upstream.checkout import Checkout
from steplib.upstream.facts import Facts


def refreshed(before: Facts, checkout: Checkout) -> tuple[Facts, list[str]]:
    """The catalogue of the checkout, and what was not read anew, a sentence each.

    C++ and CUDA sources come after Python's. Their entries are kept: only Python is parsed.
    """
    known = {file["path"]: file for file in before["files"]}
    native, notes = [], []
    for path, count in checkout.native.items():
        entry = known.get(path, {"path": path, "lines": count, "exports": None, "symbols": []})
        native.append(entry)
        if path not in known:
            notes.append(f"{path} is new and no Python; its symbols are not read")
        elif entry["lines"] != count:
            notes.append(
                f"{path} has {count} lines, not {entry['lines']}; it is no Python, so its entry "
                "is kept as it was"
            )
    whole = {"repository": before["repository"], "commit": checkout.commit}
    return {**whole, "files": [*checkout.files, *native]}, notes


def as_text(facts: Facts) -> str:
    """The file's text."""
    return json.dumps(facts, indent=1) + "\n"
