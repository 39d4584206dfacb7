"""Exercises: found, laid for a reader, checked on the book's tree, compared with upstream."""

from steplib.exercises.exercise import Exercise, Wrong, every, find, loaded
from steplib.exercises.grading import Attempt, attempt

__all__ = ["Attempt", "Exercise", "Wrong", "attempt", "every", "find", "loaded"]
