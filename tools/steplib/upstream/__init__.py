"""A checkout of upstream: what it offers, and what moved in it since the pinned commit."""
