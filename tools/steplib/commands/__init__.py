"""One module a command; each has `run(book_root, args) -> int`, the exit status."""
