"""Measuring a service from the outside."""
