"""The book's drawings: one module a figure, each with `draw() -> Drawing`."""
