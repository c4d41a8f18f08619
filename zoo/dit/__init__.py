"""shapes-dit: a diffusion transformer in SD3's layout, trained by flow matching."""
