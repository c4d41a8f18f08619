"""Turns jobs into images: the engine, the families of models it runs, and the process around it."""
