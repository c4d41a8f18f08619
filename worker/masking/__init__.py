"""How does a step of an edit compute only what its mask covers?"""
