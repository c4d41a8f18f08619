"""Latent parallelism: a second rank computes half of the rows of each batch."""
