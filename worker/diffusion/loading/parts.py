"""Load one part of a pipeline tensor by tensor, in the precision it is asked for, to its device."""

from collections.abc import Mapping
from typing import Any

import diffusers
import torch
import transformers

from catalog.weights import Component
from worker.diffusion.loading.hollow import build_in
from worker.diffusion.loading.refusing import refuse_gaps, refusing
from worker.diffusion.loading.stored import StoredTensor, open_tensors
from worker.diffusion.stock import Module

HOST = torch.device("cpu")


def load_component(component: Component, dtype: torch.dtype, device: torch.device = HOST) -> Module:
    """Load a part as its library does if it is asked for this precision, but tensor by tensor.

    The libraries change torch's default dtype for the whole process meanwhile, under the feet of
    a running engine; and they hold what they cast twice.
    """
    named = f"{component.folder.parent.name}/{component.name}/{component.files[0].name}"
    with refusing(named), open_tensors(component.files, dtype) as tensors:
        if component.library == "diffusers":
            loaded, info = _load_module(component, tensors, device)
        else:
            loaded, info = _load_encoder(component, tensors, dtype)
    refuse_gaps(named, info)
    return loaded.eval().requires_grad_(False).to(device)


def _load_module(
    component: Component, tensors: dict[str, StoredTensor], device: torch.device
) -> tuple[Module, Mapping[str, Any]]:
    """Build a module of diffusers without weights, then put every tensor in its place."""
    of = getattr(diffusers, component.class_name)
    config = of.load_config(str(component.folder), local_files_only=True)
    with torch.device("meta"):  # of this thread alone
        module = of.from_config(config)
    module._fix_state_dict_keys_on_load(tensors)
    for name, tensor in tensors.items():
        if not {*(module._keep_in_fp32_modules or ())}.isdisjoint(name.split(".")):
            tensor.dtype = torch.float32
    read = {name: tensor[...].to(device) for name, tensor in tensors.items()}
    found = module.load_state_dict(read, strict=False, assign=True)
    if any(buffer.is_meta for buffer in module.buffers()):
        _compute_buffers(module, of.from_config(config))
    return module, {"missing_keys": found.missing_keys}


def _compute_buffers(module: Module, whole: Module) -> None:
    """Take the buffers that no file has, as they follow from the configuration."""
    for name, buffer in whole.named_buffers():
        owner, _, last = name.rpartition(".")
        place = module.get_submodule(owner)
        if getattr(place, last).is_meta:
            setattr(place, last, buffer)


def _load_encoder(
    component: Component, tensors: dict[str, StoredTensor], dtype: torch.dtype
) -> tuple[Module, Mapping[str, Any]]:
    """Have transformers take each tensor in the precision that its place has without weights.

    On the host: it would copy to a device from several threads, in the way of a running engine.
    """
    of = getattr(transformers, component.class_name)
    config = of.config_class.from_pretrained(str(component.folder), local_files_only=True)
    cast: Any = type(
        of.__name__,
        (of,),
        {
            "__module__": of.__module__,
            "__qualname__": of.__qualname__,
            "__init__": lambda self, config: build_in(dtype, of, self, config, tensors),
        },
    )
    module, info = cast.from_pretrained(
        None, config=config, state_dict=tensors, dtype=torch.float32, output_loading_info=True
    )
    module.__class__ = of
    return module, info
