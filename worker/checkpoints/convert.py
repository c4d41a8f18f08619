"""Convert a single-file checkpoint into a stock folder, part by part, by diffusers' own loaders.

    python -m worker.checkpoints.convert FILE FOLDER [--base STOCK_FOLDER]

A process of its own, so that whoever asked for it does not import torch. The file is mapped and one
part at a time is in memory. `model_index.json` is written last: a folder without it is no model.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers
import torch
from diffusers import pipelines
from diffusers.loaders.single_file import load_single_file_sub_model
from diffusers.loaders.single_file_utils import (
    SingleFileComponentError,
    load_single_file_checkpoint,
)
from diffusers.utils import logging as diffusers_logging
from transformers.utils import logging as transformers_logging

from catalog.description.single_file import Checkpoint, recognise
from catalog.weights import read_components
from core.errors import AtelierError, BadWeights, ModelRefused
from worker.checkpoints.configs import write_configs

INDEX = "model_index.json"
#: A module of these libraries.
Module = Any

#: Pipelines ask for it, single files never have it.
_OPTIONAL = {"safety_checker", "feature_extractor", "image_encoder"}

#: What the library raises of files that do not fit their configuration.
_MISFITS = (
    *(AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    SingleFileComponentError,
)

_DTYPES = {"F64": torch.float32, "F32": torch.float32, "BF16": torch.bfloat16}


def convert(file: Path, folder: Path, base: Path | None = None) -> None:
    """Write a checkpoint as a stock folder.

    `base`: a stock folder of the same family, for configurations, tokenizers and absent parts.

    Raises:
        ModelRefused: it cannot be converted; says which part, and what would help.
    """
    found = recognise(file)
    with tempfile.TemporaryDirectory() as scratch:
        configs = base or Path(scratch)
        if base is None:
            _check_whole(found)
            write_configs(found.kind, configs)
        index = json.loads((configs / INDEX).read_text())
        absent = _absent(found, index, base)
        checkpoint = load_single_file_checkpoint(str(file), local_files_only=True)
        for name, value in sorted(index.items()):
            match value:
                case [str(library), str(class_name)] if name not in _OPTIONAL:
                    if name in found.parts:
                        _tell(f"converts {name}")
                        part = _load(name, library, class_name, checkpoint, configs, found)
                        part.save_pretrained(str(folder / name), safe_serialization=True)
                        del part
                    elif name not in absent:
                        _tell(f"takes {name}")
                        shutil.copytree(configs / name, folder / name, copy_function=_link_or_copy)
        _write_scheduler(folder, found, is_ours=base is None)
        (folder / INDEX).write_text(json.dumps(_index(folder, index, absent), indent=2))


def _check_whole(found: Checkpoint) -> None:
    if found.needs_base:
        lacking = ", ".join(found.lacks) or "the tokenizers of its text encoders"
        raise ModelRefused(
            f"the file does not have {lacking}: name a stock folder of its family "
            f"({found.family}) by --base, from which they are taken"
        )


def _absent(found: Checkpoint, index: Mapping[str, Any], base: Path | None) -> set[str]:
    """Name the parts that the folder will do without: SD 3's T5, where nobody brings it."""
    if base is None:
        return set()
    try:
        there = {each.name for each in read_components(base, str(index["_class_name"]))}
    except BadWeights:  # a base of configurations alone
        there = set()
    wanted = set(found.lacks) - there
    if wanted:
        raise ModelRefused(
            f"neither the file nor {base.name} has {', '.join(sorted(wanted))}: name another stock "
            "folder by --base, with their weights"
        )
    has_t5 = "text_encoder_3" in {*found.parts, *there}
    return set() if has_t5 else {"text_encoder_3", "tokenizer_3"} & set(index)


def _load(
    name: str,
    library: str,
    class_name: str,
    checkpoint: Mapping[str, torch.Tensor],
    configs: Path,
    found: Checkpoint,
) -> Module:
    try:
        part = load_single_file_sub_model(
            library_name=library,
            class_name=class_name,
            name=name,
            checkpoint=dict(checkpoint),
            pipelines=pipelines,
            is_pipeline_module=hasattr(pipelines, library),
            cached_model_config_path=str(configs),
            local_files_only=True,
            torch_dtype=_dtype(found),
        )
    except _MISFITS as error:
        told = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        raise ModelRefused(f"{name} does not fit its configuration: {told}") from error
    gaps = [each for each, weight in part.named_parameters() if weight.is_meta]
    if gaps:
        raise ModelRefused(f"{name} is not whole: the file lacks {', '.join(gaps[:3])}")
    return part


def _dtype(found: Checkpoint) -> torch.dtype:
    """Keep the precision of most of the file; every number of eight bits is one of sixteen."""
    return _DTYPES.get(next(iter(found.tensors.dtypes), ""), torch.float16)


def _write_scheduler(folder: Path, found: Checkpoint, *, is_ours: bool) -> None:
    """Say in the schedule what the file states of it; in one of ours also what its name tells."""
    path = folder / "scheduler" / "scheduler_config.json"
    config = json.loads(path.read_text())
    told = config | (_guessed(found) if is_ours else {}) | _stated(found)
    if told != config:
        path.unlink()  # it may be the base's own file
        path.write_text(json.dumps(told, indent=2))
    # SD 2 that predicts velocity was trained on 768 pixels, and says so nowhere.
    unet = folder / "unet" / "config.json"
    if is_ours and found.kind == "sd2" and found.predicts_velocity:
        unet.write_text(json.dumps(json.loads(unet.read_text()) | {"sample_size": 96}, indent=2))


def _stated(found: Checkpoint) -> dict[str, object]:
    """Give what the file itself says of its schedule."""
    told: dict[str, object] = {}
    if found.prediction is not None:
        told["prediction_type"] = found.prediction
    if found.is_zero_snr:
        told |= {"rescale_betas_zero_snr": True, "timestep_spacing": "trailing"}
    return told


def _guessed(found: Checkpoint) -> dict[str, object]:
    """Give what its kind and name let guess of its schedule."""
    told: dict[str, object] = {}
    if found.predicts_velocity:
        told["prediction_type"] = "v_prediction"
    if found.distilled == "lcm":
        told["_class_name"] = "LCMScheduler"
    elif found.distilled:
        told |= {"_class_name": "EulerDiscreteScheduler", "timestep_spacing": "trailing"}
    return told


def _index(folder: Path, index: Mapping[str, Any], absent: set[str]) -> dict[str, Any]:
    schedule = json.loads((folder / "scheduler" / "scheduler_config.json").read_text())
    written = {**index, "_diffusers_version": diffusers.__version__}
    written["scheduler"] = ["diffusers", schedule["_class_name"]]
    written |= {name: [None, None] for name in (*_OPTIONAL, *absent) if name in index}
    if "requires_safety_checker" in written:
        written["requires_safety_checker"] = False
    return written


def _link_or_copy(source: str, target: str) -> None:
    """Share the bytes of weights where both folders are on one disk."""
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copyfile(source, target)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Convert what the command line names; one line on stderr says why that cannot be."""
    parser = argparse.ArgumentParser(prog="worker.checkpoints.convert")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--base", type=Path)
    given = parser.parse_args()
    diffusers_logging.set_verbosity_error()
    transformers_logging.set_verbosity_error()
    diffusers_logging.disable_progress_bar()
    transformers_logging.disable_progress_bar()
    try:
        convert(given.file, given.folder, given.base)
    except (AtelierError, OSError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
