"""The only file that imports diffusers and transformers; wraps their loaders and errors.

Both libraries are typed in parts only, so what comes out of here is `Any`, checked by the parity
tests instead of by mypy.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.hooks import HookRegistry, ModelHook
from diffusers.models.embeddings import apply_rotary_emb
from diffusers.models.resnet import ResnetBlock2D as ResnetBlock
from diffusers.models.upsampling import Upsample2D as Upsample
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from catalog.weights import (
    CONTROLNETS,
    Component,
    read_absent,
    read_clip,
    read_components,
    read_controlnet,
)
from core.errors import BadWeights

__all__ = [
    "Argument",
    "Config",
    "Module",
    "Pipe",
    "ResnetBlock",
    "Scheduler",
    "Upsample",
    "as_it_is",
    "hook_forward",
    "import_controlnets",
    "inpainting",
    "load_clip",
    "load_controlnet",
    "load_pipeline",
    "make_scheduler",
    "rotate",
]

#: Objects of these libraries.
Pipe = Any
Module = Any
Scheduler = Any
Config = Any
Argument = Any  #: what a module is called with, and what it answers


def load_pipeline(
    folder: Path, class_name: str, dtype: torch.dtype, *, only: str | None = None
) -> Pipe:
    """Load a stock pipeline from its folder, on the host: safetensors only, nothing downloaded.

    `only`: the one part of those with weights that is loaded, if it can do without the others.

    Weights are read as float32 and cast after that: reading them in another precision changes
    torch's default dtype for the whole process, under the feet of a running engine.

    Raises: BadWeights naming the file and the reason.
    """
    _quieten()
    components = {each.name: each for each in read_components(folder, class_name)}
    # Pipelines ask for parts that they can do without, such as T5, unless told that there are none.
    parts = dict.fromkeys([*read_absent(folder), *(components if only else ())])
    for name in [only] if only else components:
        parts[name] = _load_component(components[name]).to(dtype)
    with _refusing(folder.name):
        return getattr(diffusers, class_name).from_pretrained(
            str(folder), dtype=torch.float32, use_safetensors=True, local_files_only=True, **parts
        )


def load_clip(folder: Path, dtype: torch.dtype) -> tuple[Module, Pipe, Pipe]:
    """Load a CLIPModel, its tokenizer and its image processor from one folder, on the host.

    Raises: BadWeights naming the file and the reason.
    """
    _quieten()
    model = _load_component(read_clip(folder)).to(dtype)
    with _refusing(folder.name):
        readers = [
            getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)
            for name in ("CLIPTokenizer", "CLIPImageProcessor")
        ]
    return model, readers[0], readers[1]


def load_controlnet(folder: Path, dtype: torch.dtype) -> Module:
    """Load a ControlNet from its folder, on the host.

    Raises: BadWeights naming the file and the reason.
    """
    _quieten()
    return _load_component(read_controlnet(folder)).to(dtype)


def import_controlnets() -> None:
    """Import what ControlNets are made of: it takes seconds that no session is to wait."""
    for name in CONTROLNETS:
        getattr(diffusers, name)


@contextmanager
def _refusing(named: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of files that are broken the libraries raise all there is
        raise BadWeights(f"{named}: {_first_line(error)}") from error


def _load_component(component: Component) -> Module:
    library = {"diffusers": diffusers, "transformers": transformers}[component.library]
    named = f"{component.folder.parent.name}/{component.name}/{component.files[0].name}"
    with _refusing(named):
        loaded, info = getattr(library, component.class_name).from_pretrained(
            str(component.folder),
            dtype=torch.float32,
            variant=component.variant,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
    _refuse_gaps(named, info)
    return loaded.eval().requires_grad_(False)


def _refuse_gaps(named: str, info: Mapping[str, Any]) -> None:
    """Both libraries only warn of tensors that are absent, and draw them at random."""
    for what in ("missing_keys", "mismatched_keys", "error_msgs"):
        if found := sorted(str(key) for key in info.get(what) or ()):
            raise BadWeights(f"{named}: {what.replace('_', ' ')}: {', '.join(found[:3])}")


def _first_line(error: Exception) -> str:
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
    try:
        return diffusers.AutoPipelineForInpainting.from_pipe(pipe)
    except ValueError as error:
        raise BadWeights(f"{type(pipe).__name__}: {_first_line(error)}") from error


def make_scheduler(class_name: str, config: Config, extra: Mapping[str, object]) -> Scheduler:
    """Build a diffusers scheduler for the noise schedule that a model was trained with."""
    return getattr(diffusers, class_name).from_config(config, **extra)


def _quieten() -> None:
    diffusers_logging.set_verbosity_error()
    transformers_logging.set_verbosity_error()
    diffusers_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
