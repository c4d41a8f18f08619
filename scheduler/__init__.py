"""Decides which worker holds which model and which level each prompt gets.

Pure but for `loop` and `main`; `profile` reads one file.
"""
