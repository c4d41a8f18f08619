"""Asks a running service for images as many clients would, and says how it answered."""
