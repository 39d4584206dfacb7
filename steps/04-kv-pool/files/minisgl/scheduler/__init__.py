"""Who runs when, and where in memory."""
