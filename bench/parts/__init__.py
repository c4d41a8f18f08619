"""Helpers shared by benchmarks; `python -m bench` does not run this folder."""
