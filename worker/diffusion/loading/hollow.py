"""Build parts of a pipeline with every shape and no weights, each place in its precision."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from transformers.core_model_loading import build_glob_alternation

from catalog.weights import Component, read_components
from worker.diffusion.loading.refusing import quieten, refusing
from worker.diffusion.loading.stored import StoredTensor
from worker.diffusion.stock import Config, Module


def hollow_parts(folder: Path, class_name: str, dtype: torch.dtype) -> dict[str, Module]:
    """Build the parts of a stock pipeline with every shape and no weights, as they would be loaded.

    Raises: BadWeights naming the file and the reason.
    """
    quieten()
    with refusing(folder.name):
        return {each.name: _hollow(each, dtype) for each in read_components(folder, class_name)}


def _hollow(component: Component, dtype: torch.dtype) -> Module:
    if component.library == "transformers":
        of = getattr(transformers, component.class_name)
        config = of.config_class.from_pretrained(str(component.folder), local_files_only=True)
        encoder = of.__new__(of)
        with torch.device("meta"):  # of this thread alone
            build_in(dtype, of, encoder, config, {})
        return encoder
    of = getattr(diffusers, component.class_name)
    with torch.device("meta"):
        module = of.from_config(of.load_config(str(component.folder), local_files_only=True))
    islands = {*(module._keep_in_fp32_modules or ())}
    for name, place in module.named_parameters():
        if islands.isdisjoint(name.split(".")):
            place.data = place.data.to(dtype)
    return module.eval().requires_grad_(False)


def build_in(
    dtype: torch.dtype,
    of: Any,  # noqa: ANN401 - a class
    module: Module,
    config: Config,
    tensors: Mapping[str, StoredTensor],
) -> None:
    """Build a module without weights in a precision, but for its islands of another."""
    of.__init__(module, config)
    module.to(dtype)
    if not (islands := module._get_dtype_plan(dtype)):
        return
    pattern, names, _ = build_glob_alternation(list(islands))
    for name, place in module.named_parameters():
        if found := pattern.search(name):
            precision = islands[names[found.lastgroup]]
            place.data = place.data.to(precision)
            if name in tensors:
                tensors[name].dtype = precision
