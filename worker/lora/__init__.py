"""Low-rank adapters: read from a file that is not trusted, and applied between two steps."""
