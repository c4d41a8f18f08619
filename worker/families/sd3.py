"""Stable Diffusion 3: a transformer that predicts a flow; two CLIP encoders, perhaps T5."""

import torch
from torch import Tensor

from core.job import JobRequest
from core.model import Model
from worker.control.client import steerable
from worker.diffusion.folded_attention import EMPTY_TOKENS, FoldedAttention
from worker.diffusion.stock import Module, Pipe
from worker.families.flow import FlowRunner
from worker.masking.blocks.joint import JOINT_CUTS
from worker.pipeline.architecture import Architecture
from worker.pipeline.packing import Packed
from worker.pipeline.sample import Conditioning


class Sd3Runner(FlowRunner):
    """A resident Stable Diffusion 3 pipeline, with T5 or without."""

    family = "sd3"
    pipeline_class = "StableDiffusion3Pipeline"
    architecture = Architecture(
        part="transformer",
        compiled=frozenset(JOINT_CUTS),
        cuts=JOINT_CUTS,
        steerability=steerable.JOINT,
    )
    encoded_fields = (
        *("prompt_2", "prompt_3", "negative_prompt_2", "negative_prompt_3"),
        "clip_skip",
    )

    def __init__(
        self, model: Model, pipe: Pipe, *, device: torch.device, dtype: torch.dtype
    ) -> None:
        super().__init__(model, pipe, device=device, dtype=dtype)
        is_silent = _is_silent(pipe.text_encoder_3)
        if is_silent:  # without it stock has the same zeros at once
            pipe.text_encoder_3 = None
        self._is_folding = is_silent and _tokens_of(pipe) < EMPTY_TOKENS
        if self._is_folding:
            stock = next(iter(pipe.transformer.attn_processors.values()))
            pipe.transformer.set_attn_processor(FoldedAttention(stock))

    def condition(self, request: JobRequest, is_guided: bool) -> Conditioning:
        text, negative, pooled, negative_pooled = self.encode(request, is_guided)
        if is_guided:
            text, pooled = torch.cat([negative, text]), torch.cat([negative_pooled, pooled])
        if self._is_folding:
            text = text[:, : 1 - EMPTY_TOKENS]
        return Conditioning(text=text, added={"pooled_projections": pooled})

    def call(self, latents: Tensor, times: Tensor, packed: Packed) -> Tensor:
        predictions: Tensor = self.unet(
            latents,
            timestep=times,
            encoder_hidden_states=packed.text,
            return_dict=False,
            **(packed.added or {}),
        )[0]
        return predictions


def _is_silent(t5: Module | None) -> bool:
    """Tell whether all its tokens are zero: it is absent, or its last norm scales by nothing."""
    return t5 is None or not t5.encoder.final_layer_norm.weight.any()


def _tokens_of(pipe: Pipe) -> int:
    """Tokens of a picture of the size that the model was made for."""
    config = pipe.transformer.config
    side: int = config.sample_size // config.patch_size
    return side * side
