"""Learned scorer: a small CLIP that rates how well a picture shows its caption."""
