"""A reader's files held against the reference or upstream, symbol by symbol."""
