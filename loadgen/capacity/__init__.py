"""The highest rate at which a service keeps its promise, found by trials."""
