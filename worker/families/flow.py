"""What do the families share whose transformer predicts a flow from picture to noise?"""

from torch import Tensor

from worker.families.unet import UNetRunner


class FlowRunner(UNetRunner):
    """A resident pipeline with a transformer in place of a UNet, and a decoder with a shift."""

    part = "transformer"

    def decode_latents(self, latents: Tensor) -> Tensor:
        vae = self.pipe.vae
        latents = latents / vae.config.scaling_factor + vae.config.shift_factor
        decoded: Tensor = vae.decode(latents, return_dict=False)[0]
        return decoded
