"""Shared runner of flow-matching transformer families (SD3, Flux)."""

from torch import Tensor

from worker.families.diffusion_runner import DiffusionRunner


class FlowRunner(DiffusionRunner):
    """A resident pipeline with a transformer in place of a UNet, and a decoder with a shift."""

    def decode_latents(self, latents: Tensor) -> Tensor:
        vae = self.pipe.vae
        latents = latents / vae.config.scaling_factor + vae.config.shift_factor
        decoded: Tensor = vae.decode(latents, return_dict=False)[0]
        return decoded
