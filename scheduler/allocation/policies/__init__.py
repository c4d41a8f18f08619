"""Allocation policies of other systems, as baselines. Pure."""
