"""What a grading is told in: pure functions from a report to the text of one file."""
