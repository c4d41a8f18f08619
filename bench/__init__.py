"""One script a claim: `python -m bench.NAME [--quick] [--json]`."""
