"""Masked edits: compute only the masked tokens and reuse a template's activations."""
