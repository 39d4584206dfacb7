"""Grading: submissions are run in a sandbox, judged outside of it, and told in several formats."""
