"""How good is each level of each model, for which prompts, and in how much time?"""
