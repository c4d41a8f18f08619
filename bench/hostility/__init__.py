"""Inputs that one client sends against all others, and how what they do is seen."""
