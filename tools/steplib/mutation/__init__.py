"""Mutants: small wrong changes of a chapter's files, and whether its check notices each of them."""
