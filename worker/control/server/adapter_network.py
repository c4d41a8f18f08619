"""T2I-Adapter: features of a picture alone, which are asked for once an image."""

import torch
from torch import Tensor

from core.errors import BadWeights
from worker.control.server.network import Begun, Give, Network
from worker.control.session import MODES, Opening
from worker.diffusion.device import to_device

#: Of red, green and blue in 2 ** 16: how PIL makes a picture grey.
_GREY = (19595, 38470, 7471)


class AdapterNetwork(Network):
    """A T2I-Adapter of a UNet."""

    @property
    def num_residuals(self) -> int:
        return len(self.controlnet.adapter.body)

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Read the picture, grey if it reads one channel; it is told nothing of the prompt."""
        if MODES in opening.added:
            raise BadWeights("a T2I-Adapter is told no mode of its picture: leave it out")
        pixels = to_device(opening.condition, self.device)
        if self.controlnet.config.in_channels == 1:
            weights = torch.tensor(_GREY, dtype=torch.int64, device=pixels.device)
            pixels = (((pixels.long() * weights).sum(-1) + 2**15) >> 16)[..., None]
        picture = (pixels.permute(2, 0, 1)[None].float() / 255).to(self.dtype)
        return Begun(
            condition=picture.repeat(len(opening.text), 1, 1, 1),
            text=self.here(opening.text),
            added={},
        )

    def call(
        self,
        latents: Tensor,
        times: Tensor,
        *,
        condition: Tensor,
        text: Tensor,
        added: dict[str, Tensor],
        give: Give,
    ) -> None:
        """See `Network.call`. Shapes: condition [B, 3 or 1, H, W]."""
        give(self.controlnet(condition))
