"""Requests over HTTP: sent when they are due, and followed to their end."""
