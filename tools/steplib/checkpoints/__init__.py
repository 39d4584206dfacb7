"""How the checkpoints are made or fetched, and how they are kept whole."""
