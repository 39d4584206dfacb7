"""Benchmarks: each is run by hand, compares in one run, and writes one result file."""
