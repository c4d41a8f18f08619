"""Arrival processes: times from rate, duration and seed. Pure and reproducible."""
