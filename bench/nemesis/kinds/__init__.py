"""Kinds of faults: a row each, and the few lines that do it."""
