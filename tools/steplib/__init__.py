"""The step tool: it assembles the book's chapters and proves each one."""
