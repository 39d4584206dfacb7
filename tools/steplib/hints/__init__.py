"""Hints for what a reader has to write: a nudge, an idea, an outline; then the solution."""

from steplib.hints.showing import next_hint
from steplib.hints.tasks import Task, load

__all__ = ["Task", "load", "next_hint"]
