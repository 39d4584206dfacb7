"""Which part of a page to read about a failure."""
