"""The second rank of a worker: latent parallelism."""
