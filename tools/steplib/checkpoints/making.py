"""Makes the tiny checkpoints and fetches the real ones."""

from __future__ import annotations

import sys
import time

from steplib.checkpoints.placing import placed, taking_turns
from steplib.errors import UserError
from steplib.models import Checkpoint, checkpoint, content_digest, folder, present, problem


def provide(name: str) -> str | None:
    """Make or fetch the checkpoint; a line about it, or None when it is here and whole already."""
    row = checkpoint(name)
    with taking_turns(folder(name).parent):
        if present(name) and not problem(name):
            return None
        _say(f"{name}: {'making' if row.how == 'tiny' else 'fetching'} it")
        start = time.perf_counter()
        note = {"tiny": _make_tiny, "smollm2": _fetch_smollm2, "hub": _fetch_from_hub}[row.how](row)
    return f"{name}: {note} ({time.perf_counter() - start:.1f} s)"


def _make_tiny(row: Checkpoint) -> str:
    from steplib.checkpoints.liveliness import check_liveliness
    from steplib.checkpoints.tiny import write_tiny

    assert row.tiny is not None, f"{row.name} has no [checkpoint.tiny] table"
    with placed(folder(row.name)) as place:
        write_tiny(place, row.tiny)
        _check_digest(row, content_digest(place))
        lively = check_liveliness(row.name, place)
    return f"made; {lively}"


def _fetch_smollm2(row: Checkpoint) -> str:
    from steplib.checkpoints.smollm2 import fetch

    with placed(folder(row.name)) as place:
        fetch(place)
        _check_digest(row, content_digest(place))
    return "fetched and converted"


def _fetch_from_hub(row: Checkpoint) -> str:
    from steplib.checkpoints.hub import fetch

    with placed(folder(row.name)) as place:
        return fetch(row.hub, place)


def _check_digest(row: Checkpoint, found: str) -> None:
    if found != row.sha256:
        raise UserError(
            f"{row.name} came out with the digest {found}, and checkpoints.toml promises "
            f"{row.sha256 or 'none'}; after a change of recipe on purpose, write the new one there."
        )


def _say(sentence: str) -> None:
    """A passing line, on a terminal only."""
    if sys.stderr.isatty():
        print(sentence, file=sys.stderr, flush=True)
