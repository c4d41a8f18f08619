"""Images on their way through any model, one row each."""

import torch

from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.samplers.sampler import Sampler
from worker.pipeline.sample import Conditioning, UNetSample


def a_sample(sampler: Sampler, latents: torch.Tensor, pool: LatentPool, **facts) -> UNetSample:
    """An image that begins with these latents; `facts` of it are beside what is usual."""
    usual = {"rows": 1, "guidance": None, "time_cond": None}
    num_kept = sampler.stepper.num_kept if sampler.stepper else 0
    return UNetSample(
        group=(tuple(latents.shape[1:]), 1),
        num_steps=sampler.num_steps - sampler.position,
        row=pool.take(latents, num_kept, sampler.kept),
        sampler=sampler,
        conditioning=Conditioning(text=torch.zeros(1, 1, 1)),
        **(usual | facts),
    )
