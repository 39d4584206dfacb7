"""Makes the tiny checkpoints and fetches the real ones."""

from __future__ import annotations

import time

from steplib.errors import UserError
from steplib.liveliness import check_liveliness
from steplib.models import Checkpoint, checkpoint, digest, folder, present, problem
from steplib.placing import placed
from steplib.tiny import write_tiny


def provide(name: str) -> str:
    """Make or fetch the checkpoint unless it is here and whole; one line about it."""
    row = checkpoint(name)
    if present(name) and not problem(name):
        return f"{name} is here"
    start = time.perf_counter()
    note = {"tiny": _make_tiny, "smollm2": _fetch_smollm2, "hub": _fetch_from_hub}[row.how](row)
    return f"{name}: {note} ({time.perf_counter() - start:.1f} s)"


def _make_tiny(row: Checkpoint) -> str:
    assert row.tiny is not None, f"{row.name} has no [checkpoint.tiny] table"
    with placed(folder(row.name)) as place:
        write_tiny(place, row.tiny)
        _check_digest(row, digest(place))
        lively = check_liveliness(row.name, place)
    return f"made; {lively}"


def _fetch_smollm2(row: Checkpoint) -> str:
    from steplib.smollm2 import fetch

    with placed(folder(row.name)) as place:
        fetch(place)
        _check_digest(row, digest(place))
    return "fetched and converted"


def _fetch_from_hub(row: Checkpoint) -> str:
    from steplib.hub import fetch

    with placed(folder(row.name)) as place:
        return fetch(row.hub, place)


def _check_digest(row: Checkpoint, found: str) -> None:
    if found != row.sha256:
        raise UserError(
            f"{row.name} came out with the digest {found}, and checkpoints.toml promises "
            f"{row.sha256 or 'none'}; after a change of recipe on purpose, write the new one there."
        )
