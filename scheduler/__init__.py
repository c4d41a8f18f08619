"""Decides which worker holds which model and which level each prompt gets.

What decides is pure; `loop`, `main`, `measured` and what finds latents to start from are not.
"""
