"""shapes-dit: a diffusion transformer in the layout of Stable Diffusion 3, trained on flows."""
