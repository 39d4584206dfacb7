"""`site {build,serve,publish --to DIR|BRANCH}`: the handbook as a site."""

from __future__ import annotations

import argparse
from pathlib import Path

from steplib import site
from steplib.errors import UserError
from steplib.paths import shown

FAILED = 1


def run(book_root: Path, args: argparse.Namespace) -> int:
    """Build into site/, show on this machine, or publish."""
    root = book_root.resolve()
    if args.to and args.action != "publish":
        raise UserError(f"--to goes with publish, not with {args.action}.")
    if args.action == "serve":
        return site.serve(root, args.port)
    return _publish(root, args.to) if args.action == "publish" else _build(root)


def _build(root: Path) -> int:
    try:
        site.build(root, root / "site")
    except site.BuildFailed as error:
        print(f"{error}\nThe strict build failed; mend what it names.")
        return FAILED
    print(f"The site is in {shown(root / 'site', root)}/; show it with: steps.py site serve")
    return 0


def _publish(root: Path, to: str | None) -> int:
    from steplib.publish import publish

    if not to:
        raise UserError("publish needs --to DIR or --to BRANCH.")
    done = publish(root, to)
    where = done.folder or f"the branch {done.branch}"
    print(f"The site of {done.commit} is in {where}; for reading offline: {done.zip}")
    if done.branch:
        print(f"Next: git push origin {done.branch}")
    return 0
