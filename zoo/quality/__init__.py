"""Quality and time of each level of each model, by prompt: profiles and labels."""
