"""Checks a reader's files each time one is saved."""
