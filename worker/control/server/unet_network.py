"""ControlNet of the UNet families; its condition is embedded once per image."""

import torch
from torch import Tensor

from core.errors import BadWeights
from worker.control.server.network import Begun, Give, Network
from worker.control.session import MODES, SCALES, Opening
from worker.diffusion.device import to_device
from worker.diffusion.stock import Module, as_it_is, hook_forward


class UNetNetwork(Network):
    """A ControlNet of the UNet families."""

    def __init__(self, controlnet: Module, *, device: torch.device, dtype: torch.dtype) -> None:
        """Take it over. Raises: BadWeights if it is of a kind that is not served."""
        super().__init__(controlnet, device=device, dtype=dtype)
        if controlnet.config.global_pool_conditions:
            raise BadWeights("a ControlNet that pools its condition is not served")
        self._embed = controlnet.controlnet_cond_embedding.forward
        # Stock embeds the condition again at every step.
        hook_forward(controlnet.controlnet_cond_embedding, "embedded", as_it_is)

    @property
    def num_residuals(self) -> int:
        return len(self.controlnet.controlnet_down_blocks) + 1

    @torch.inference_mode()
    def begin(self, opening: Opening) -> Begun:
        """Embed the condition of an image, as often as it has rows: stock embeds them together.

        What is told of the pictures, and not of the prompt, is left to Unions.
        """
        pixels = to_device(opening.condition, self.device).permute(2, 0, 1)[None]
        condition = (pixels.float() / 255).to(self.dtype).repeat(len(opening.text), 1, 1, 1)
        embedded = self._embed(self._ordered(condition.contiguous()))
        return Begun(
            condition=self._ordered(embedded),
            text=self.here(opening.text),
            added={
                name: self.here(value)
                for name, value in opening.added.items()
                if name not in (MODES, SCALES)
            },
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
        down, middle = self.controlnet(
            latents,
            times,
            encoder_hidden_states=text,
            controlnet_cond=condition,
            added_cond_kwargs=added,
            return_dict=False,
        )
        give([*down, middle])  # a decoder begins with the last

    def _ordered(self, channels: Tensor) -> Tensor:
        """Turn channels over where stock turns what it is given over before it is embedded."""
        is_bgr = self.controlnet.config.controlnet_conditioning_channel_order == "bgr"
        return channels.flip(1) if is_bgr else channels
