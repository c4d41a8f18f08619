"""A whole service under faults, what its clients saw of it, and a checker of their history."""
