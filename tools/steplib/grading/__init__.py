"""Grading: many submissions, run in a sandbox, judged outside of it, and told in several formats."""
