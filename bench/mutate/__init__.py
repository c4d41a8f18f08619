"""Mutation testing: files with one small change each, and tests that should notice it."""
