"""Describe an upscaler: one safetensors file, in a folder or alone. No torch."""

from pathlib import Path

from catalog.description.folder import GIB, Description, check_name, written_at
from catalog.description.tensors import read_tensors
from catalog.description.upscaler import FAMILY, Upscaler, is_upscaler, read_upscaler
from core.errors import ModelRefused
from core.model import Model
from core.request.upscale import WINDOW

#: Pixels a side that it makes at most, unless its `atelier.json` says otherwise; those it reads
#: at least.
MOST, LEAST = 4096, 16
#: Steps of a picture, as large as any `atelier.json` may say.
MOST_WINDOWS = 4096
#: First guesses until a worker has measured: seconds to load, and of a window of 256 pixels.
_LOAD_S, _STEP_S = 1.0, 0.1
#: Arrays of a window in full size and all channels that are in memory at a time.
_LIVE = 3


def holds_upscaler(file: Path) -> bool:
    """Tell whether a file is an upscaler; what cannot be read is none."""
    if file.suffix.lower() != ".safetensors" or not file.is_file():
        return False
    try:
        return is_upscaler(read_tensors([file]).by_name)
    except ModelRefused:
        return False


def weights_of(folder: Path) -> Path:
    """Name the one file of weights of an upscaler's folder. Raises: ModelRefused."""
    files = sorted(folder.glob("*.safetensors"))
    if len(files) == 1:
        return files[0]
    raise ModelRefused(
        f"{folder.name} is of family {FAMILY}, and has {len(files)} safetensors files: it needs one"
    )


def describe_upscaler(file: Path, name: str) -> Description:
    """Describe the upscaler in a file.

    Raises:
        ModelRefused: it cannot be served; says why.
    """
    check_name(name)
    tensors = read_tensors([file])
    return Description(
        model=_model(name, read_upscaler(tensors.by_name), tensors.parameters),
        pipeline="RRDBNet",
        parameters=tensors.parameters,
        dtypes=tensors.dtypes,
        files=1,
        variant=None,
        distilled=None,
        scheduler="none",
        written_at=written_at(file),
    )


def _model(name: str, net: Upscaler, parameters: int) -> Model:
    return Model(
        name=name,
        family=FAMILY,
        default_steps=1,
        max_steps=MOST_WINDOWS,
        default_guidance=1.0,
        default_size=WINDOW,
        min_size=LEAST,
        max_size=MOST // net.scale,
        size_multiple=1,
        max_prompt_tokens=0,
        size_gib=round((4 * parameters + _work_bytes(net)) / GIB, 4),
        load_s=_LOAD_S,
        step_s=_STEP_S,
        scale=net.scale,
    )


def _work_bytes(net: Upscaler) -> int:
    """Say what a window takes while it is enlarged, in 32 bits."""
    return _LIVE * 4 * net.features * (WINDOW * net.scale) ** 2
