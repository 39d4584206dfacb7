#!/usr/bin/env python3
"""The step tool: `python tools/steps.py --help`."""

import sys
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036 - what follows can't even be imported there
    print("error: Python 3.11 or newer is needed; run .venv/bin/python.", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

from steplib.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
