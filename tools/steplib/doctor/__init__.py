"""Looks over this machine: each finding has a state and, when something is wrong, the mend."""
