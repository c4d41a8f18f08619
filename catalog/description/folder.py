"""Describe a stock pipeline folder: what it is, what it makes, what it takes. No torch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.config_file import read_json
from catalog.description.distilled import Habit, habit_of, kind_of_names
from catalog.description.pipelines import check_channels, family_of
from catalog.description.schedulers import check_scheduler, few_steps_of, most_steps_of
from catalog.description.sizes import sizes_of
from catalog.description.tensors import Tensors, read_tensors
from catalog.weights import Component, read_components
from core.errors import BadWeights, ModelRefused
from core.model import Model

INDEX = "model_index.json"
#: Names are parts of queues, levels and folders.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
GIB = 2**30
#: First guesses until a worker has measured: GiB/s of loading, and seconds of one step of a model
#: of 10^9 parameters on the latents of 512 pixels.
_LOAD_GIB_S, _STEP_S, _LATENTS = 1.0, 0.05, 64 * 64
_LONGEST_PROMPT = 100_000  #: what tokenizers say that know no limit is far above that


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a folder is, beside what it makes."""

    model: Model
    pipeline: str  #: its stock class
    parameters: int  #: of all parts
    dtypes: tuple[str, ...]  #: as stored, such as `F16`; that of most numbers first
    files: int  #: of weights
    variant: str | None  #: of its files, such as `fp16`
    distilled: str | None  #: kind of few-step model, such as `turbo`
    scheduler: str  #: its own, by class
    written_at: int  #: when the file that says what it is was written, in epoch s; 0: unknown


def describe(folder: Path, name: str | None = None) -> Description:
    """Describe a folder by its `model_index.json`, its configurations and the headers of its files.

    Raises:
        ModelRefused: it cannot be served; the message says why, and what would help.
    """
    name = name or folder.name
    check_name(name)
    index = _read_index(folder)
    class_name = str(index.get("_class_name"))
    family = family_of(class_name)
    try:
        components = {each.name: each for each in read_components(folder, class_name)}
    except BadWeights as error:
        raise ModelRefused(str(error)) from error
    return _describe(folder, name, family, index, components)


def written_at(file: Path) -> int:
    """Tell when a file was written, in epoch s; 0: it has gone meanwhile."""
    try:
        return int(file.stat().st_mtime)
    except OSError:
        return 0


def check_name(name: str) -> None:
    """Refuse what cannot name a model. Raises: ModelRefused."""
    if not NAME.fullmatch(name):
        raise ModelRefused(
            f"{name[:64]!r} cannot name a model: at most 64 letters, digits, `.`, `_` and `-`, the "
            "first a letter or digit; give another by --name"
        )


def _describe(
    folder: Path,
    name: str,
    family: str,
    index: Mapping[str, object],
    components: Mapping[str, Component],
) -> Description:
    part = "unet" if family in {"sd", "sdxl"} else "transformer"
    for needed in (part, "vae"):
        if needed not in components:
            raise ModelRefused(f"model_index.json names no {needed}: the folder is not complete")
    configs = {each: _config(folder / each / "config.json") for each in components}
    for each, config in configs.items():
        _check_quantized(each, config)
    _check_input(family, part, configs[part], configs["vae"])
    schedule = _config(folder / "scheduler" / "scheduler_config.json")
    check_scheduler(str(schedule.get("_class_name")))
    tensors = {each: read_tensors(one.files) for each, one in components.items()}
    names = (name, folder.name, str(index.get("_name_or_path") or "").rpartition("/")[2])
    kind = _kind(family, configs[part], schedule, names)
    most = most_steps_of(schedule)
    habit = habit_of(family, kind, names=names, denoiser=configs[part], most_steps=most)
    return Description(
        model=_model(folder, name, family, configs, part, habit, tensors),
        pipeline=str(index["_class_name"]),
        parameters=sum(each.parameters for each in tensors.values()),
        dtypes=_whole(tensors).dtypes,
        files=sum(len(each.files) for each in components.values()),
        variant=components[part].variant,
        distilled=kind,
        scheduler=str(schedule.get("_class_name")),
        written_at=written_at(folder / INDEX),
    )


def _model(
    folder: Path,
    name: str,
    family: str,
    configs: Mapping[str, Mapping[str, object]],
    part: str,
    habit: Habit,
    tensors: Mapping[str, Tensors],
) -> Model:
    sizes = sizes_of(family, configs[part], configs["vae"])
    size_gib = sum(each.resident_bytes for each in tensors.values()) / GIB
    cells = max(1.0, (sizes.native / 8) ** 2 / _LATENTS)
    return Model(
        name=name,
        family=family,
        default_steps=habit.steps,
        max_steps=habit.max_steps,
        default_guidance=habit.guidance,
        default_size=sizes.native,
        min_size=sizes.least,
        max_size=sizes.most,
        size_multiple=sizes.multiple,
        max_prompt_tokens=_prompt_tokens(folder),
        size_gib=round(size_gib, 4),
        load_s=round(1 + size_gib / _LOAD_GIB_S, 2),
        step_s=round(max(0.005, _STEP_S * tensors[part].parameters / 1e9 * cells), 4),
    )


def _whole(tensors: Mapping[str, Tensors]) -> Tensors:
    return Tensors(
        by_name={f"{p}.{n}": t for p, each in tensors.items() for n, t in each.by_name.items()}
    )


def _kind(
    family: str,
    denoiser: Mapping[str, object],
    schedule: Mapping[str, object],
    names: tuple[str, ...],
) -> str | None:
    """Tell which kind of few-step model it is: by its parts, or else by its names."""
    if family == "flux":
        return kind_of_names(names) or (None if denoiser.get("guidance_embeds") else "schnell")
    if denoiser.get("time_cond_proj_dim"):
        return "lcm"
    by_schedule = few_steps_of(schedule)
    is_certain = by_schedule in {"lcm", "hyper"}
    return by_schedule if is_certain else kind_of_names(names) or by_schedule


def _check_input(
    family: str, part: str, denoiser: Mapping[str, object], vae: Mapping[str, object]
) -> None:
    latent = vae.get("latent_channels", 4)
    given = denoiser.get("in_channels", latent)
    if isinstance(given, int) and isinstance(latent, int):
        check_channels(part, given, latent * 4 if family == "flux" else latent)


def _check_quantized(part: str, config: Mapping[str, object]) -> None:
    quantized = config.get("quantization_config")
    if not isinstance(quantized, dict):
        return
    method = quantized.get("quant_method", "bitsandbytes")
    raise ModelRefused(
        f"{part}: quantised by {method}, which is not served; load it where {method} is "
        f"installed, call `.dequantize()` on the {part}, save it, and add that; or add the "
        "unquantised folder"
    )


def _prompt_tokens(folder: Path) -> int:
    """Count the tokens that its CLIP encoder reads, without the begin and end tokens."""
    config = folder / "tokenizer" / "tokenizer_config.json"
    told = _config(config).get("model_max_length") if config.is_file() else None
    is_known = isinstance(told, int) and 2 < told < _LONGEST_PROMPT
    return int(str(told)) - 2 if is_known else 75


def _read_index(folder: Path) -> Mapping[str, object]:
    if not folder.is_dir():
        raise ModelRefused(f"{folder}: there is no such folder")
    if not (folder / INDEX).is_file():
        raise ModelRefused(f"{folder.name} has no {INDEX}: {_what_it_is(folder)}")
    return _config(folder / INDEX)


def _what_it_is(folder: Path) -> str:
    """Guess what somebody took for a pipeline folder."""
    pickled = sorted(each.name for end in ("ckpt", "pt", "bin") for each in folder.glob(f"*.{end}"))
    if (folder / "config.json").is_file():
        kind = _config(folder / "config.json").get("_class_name", "part of a model")
        return f"it is a {kind}, one part of a pipeline; add the folder of the whole pipeline"
    if files := sorted(each.name for each in folder.glob("*.safetensors")):
        return f"add the file itself: `atelier models add {folder.name}/{files[0]}`"
    if pickled:
        return f"{pickled[0]} is a pickle, which can run code; convert it to safetensors first"
    return "it is no folder of diffusers' layout, as `save_pretrained` of a pipeline writes it"


def _config(path: Path) -> Mapping[str, object]:
    try:
        found = read_json(path)
    except FileNotFoundError as error:
        where = f"{path.parent.name}/{path.name}"
        raise ModelRefused(f"{where} is missing: the folder is not complete") from error
    except (OSError, ValueError) as error:
        raise ModelRefused(f"{path.parent.name}/{path.name} cannot be read: {error}") from error
    return found if isinstance(found, dict) else {}
