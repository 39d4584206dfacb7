"""Work that threads must take turns at."""

from __future__ import annotations

import threading

PARSING = threading.RLock()
"""Held while `ast` parses: CPython 3.11 counts its depth for all threads together, and fails when
one thread stops in the middle of another's count. Parsing would not run side by side anyway."""
