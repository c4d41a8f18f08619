"""Replicate's predictions API."""
