"""Load stock pipelines, CLIPs and ControlNets from their folders: nothing is downloaded."""

from collections.abc import Collection
from pathlib import Path

import diffusers
import torch
import transformers

from catalog.weights import (
    CONTROLNETS,
    read_absent,
    read_clip,
    read_components,
    read_controlnet,
    read_image_encoder,
)
from worker.diffusion.loading.parts import HOST, load_component
from worker.diffusion.loading.refusing import quieten, refusing
from worker.diffusion.stock import Module, Pipe


def load_pipeline(
    folder: Path,
    class_name: str,
    dtype: torch.dtype,
    *,
    device: torch.device = HOST,
    only: str | None = None,
    on_host: Collection[str] = (),
) -> Pipe:
    """Load a stock pipeline from its folder to a device: safetensors only, nothing downloaded.

    `only`: the one part of those with weights that is loaded, if it can do without the others;
    `on_host`: parts that stay on the host, whatever the device.

    Raises: BadWeights naming the file and the reason.
    """
    quieten()
    components = {each.name: each for each in read_components(folder, class_name)}
    # Pipelines ask for parts that they can do without, such as T5, unless told that there are none.
    parts = dict.fromkeys([*read_absent(folder), *(components if only else ())])
    for name in [only] if only else components:
        there = HOST if name in on_host else device
        parts[name] = load_component(components[name], dtype, there)
    with refusing(folder.name):
        return getattr(diffusers, class_name).from_pretrained(
            str(folder), dtype=torch.float32, use_safetensors=True, local_files_only=True, **parts
        )


def load_clip(folder: Path, dtype: torch.dtype) -> tuple[Module, Pipe, Pipe]:
    """Load a CLIPModel, its tokenizer and its image processor from one folder, on the host.

    Raises: BadWeights naming the file and the reason.
    """
    quieten()
    model = load_component(read_clip(folder), dtype)
    with refusing(folder.name):
        readers = [
            getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)
            for name in ("CLIPTokenizer", "CLIPImageProcessor")
        ]
    return model, readers[0], readers[1]


def load_controlnet(folder: Path, dtype: torch.dtype, device: torch.device = HOST) -> Module:
    """Load a ControlNet from its folder to a device.

    Raises: BadWeights naming the file and the reason.
    """
    quieten()
    return load_component(read_controlnet(folder), dtype, device)


def load_image_encoder(
    folder: Path, dtype: torch.dtype, device: torch.device
) -> tuple[Module, Pipe]:
    """Load the image encoder of an IP-Adapter to a device, and what prepares its pictures.

    As stock's `load_ip_adapter` does it. Raises: BadWeights naming the file and the reason.
    """
    quieten()
    encoder = load_component(read_image_encoder(folder), dtype, device)
    size = encoder.config.image_size
    return encoder, transformers.CLIPImageProcessor(size=size, crop_size=size)


def import_controlnets() -> None:
    """Import what ControlNets are made of: it takes seconds that no session is to wait."""
    for name in CONTROLNETS:
        getattr(diffusers, name)
