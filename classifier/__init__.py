"""Prompt classifier: predicts quality per level; trained and run without torch."""
