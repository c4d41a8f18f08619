"""shapes-dit and shapes-hd: diffusion transformers in SD3's layout, trained by flow matching."""
