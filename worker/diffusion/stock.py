"""Wrap what is called of diffusers beside its models; `loading` makes these from files.

The libraries are typed in parts only, so what comes out of here is `Any`, checked by the parity
tests instead of by mypy.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import diffusers
import torch
from diffusers.hooks import HookRegistry, ModelHook
from diffusers.models.activations import GEGLU as Geglu
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.resnet import ResnetBlock2D as ResnetBlock
from diffusers.models.transformers.transformer_2d import Transformer2DModel as Transformers
from diffusers.models.upsampling import Upsample2D as Upsample

from core.errors import BadWeights

__all__ = [
    "Argument",
    "Config",
    "Geglu",
    "Module",
    "Pipe",
    "ResnetBlock",
    "Scheduler",
    "Transformers",
    "Upsample",
    "as_it_is",
    "first_line",
    "from_images",
    "hook_forward",
    "inpainting",
    "make_scheduler",
    "remove_hooks",
    "rotate",
    "tiling",
    "unhook",
]

#: Pixels of the largest picture that is encoded and decoded whole.
LARGEST_WHOLE = 2 * 2**20

#: Objects of these libraries.
Pipe = Any
Module = Any
Scheduler = Any
Config = Any
Argument = Any  #: what a module is called with, and what it answers


def first_line(error: Exception) -> str:
    """Give the first line of what a library says of an error, after its name."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:300] if text else ''}"


class _Forward(ModelHook):  # type: ignore[misc]
    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self._forward = forward

    def new_forward(self, module: Module, *args: Argument, **kwargs: Argument) -> Argument:
        return self._forward(self.fn_ref.original_forward, module, *args, **kwargs)


def hook_forward(module: Module, name: str, forward: Callable[..., Any]) -> None:
    """Call `forward(original, module, ...)` in place of a module's own forward.

    Nothing is replaced: names, weights and adapters of the module stay what they are.
    """
    registry = HookRegistry.check_if_exists_or_initialize(module)
    registry.register_hook(_Forward(forward), name)


def remove_hooks(model: Module, name: str) -> None:
    """Take the hooks of this name off a model and all of its modules."""
    HookRegistry.check_if_exists_or_initialize(model).remove_hook(name)


def unhook(model: Module) -> None:
    """Take all hooks off a model: with them its modules hold each other, and so their weights."""
    for module in model.modules():
        for name in ("_diffusers_hook", "forward"):
            vars(module).pop(name, None)


@contextmanager
def tiling(vae: Module, pixels: int) -> Iterator[None]:
    """Encode and decode pictures of so many pixels in tiles, if they are large; for `with`.

    As stock does once it is told to. By their size alone: an image shall not depend on how much
    memory was free when it was made.
    """
    before, vae.use_tiling = vae.use_tiling, pixels > LARGEST_WHOLE
    try:
        yield
    finally:
        vae.use_tiling = before


def as_it_is(whole: object, module: Module, given: torch.Tensor) -> torch.Tensor:
    """Give a module's input back, as a hook of one whose work is done elsewhere."""
    del whole, module
    return given


def rotate(heads: torch.Tensor, places: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turn each token by its place. Shapes: heads [B, S, H, D], cosines and sines [S, D]."""
    turned: torch.Tensor = apply_rotary_emb(heads, places, sequence_dim=1)
    return turned


def inpainting(pipe: Pipe) -> Pipe:
    """Give the stock inpaint pipeline of a pipeline's kind, over the very same parts.

    Raises: BadWeights if this kind has none.
    """
    return _of_kind(diffusers.AutoPipelineForInpainting, pipe)


def from_images(pipe: Pipe) -> Pipe:
    """Give the stock img2img pipeline of a pipeline's kind, likewise. Raises: BadWeights."""
    return _of_kind(diffusers.AutoPipelineForImage2Image, pipe)


def _of_kind(kind: Argument, pipe: Pipe) -> Pipe:
    try:
        return kind.from_pipe(pipe)
    except ValueError as error:
        raise BadWeights(f"{type(pipe).__name__}: {first_line(error)}") from error


def make_scheduler(class_name: str, config: Config, extra: Mapping[str, object]) -> Scheduler:
    """Build a diffusers scheduler for the noise schedule that a model was trained with."""
    return getattr(diffusers, class_name).from_config(config, **extra)
