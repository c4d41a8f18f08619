"""Benchmarks, one script per claim: `python -m bench.NAME [--quick] [--json]`."""
