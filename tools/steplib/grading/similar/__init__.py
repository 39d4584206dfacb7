"""Submissions that are more alike than chance: a place to look, never a verdict.

Fingerprints are k-grams of tokens, winnowed (Schleimer, Wilkerson and Aiken: Winnowing, 2003).
"""
