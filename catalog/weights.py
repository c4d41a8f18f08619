"""Check the files of a model folder before anything is built. No torch."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from catalog.config_file import read_json
from core.errors import BadWeights

#: Classes of diffusers that are served.
CONTROLNETS = (
    "ControlNetModel",
    "ControlNetUnionModel",
    "FluxControlNetModel",
    "SD3ControlNetModel",
    "T2IAdapter",
)

#: Number of a shard in the name of its file.
_SHARD = re.compile(r"-\d{5}-of-\d{5}")
#: What the names of files of weights end in.
_ENDS = {"safetensors", "index", "json"}

#: Bytes of the header of a file of weights: a Flux checkpoint's has less than one in five.
MAX_HEADER_BYTES = 8 * 2**20
#: Bytes at either end of a file that a fingerprint reads.
_SAMPLE = 2**20
#: Parts of a file, each of which begins with a piece that a fingerprint reads, and its bytes.
_PIECES, _PIECE = 64, 16 * 2**10


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One part of a pipeline folder."""

    name: str  #: such as `unet`, also the name of its subfolder
    library: str  #: `diffusers` or `transformers`
    class_name: str
    folder: Path
    files: tuple[Path, ...]  #: its safetensors files
    variant: str | None  #: such as `fp16`, part of the file names


def read_components(folder: Path, class_name: str) -> list[Component]:
    """Read which parts with weights a pipeline folder has, and check their files.

    Raises: BadWeights naming the file and the reason.
    """
    index = _read_json(folder / "model_index.json")
    if index.get("_class_name") != class_name:
        raise BadWeights(
            f"{_name(folder / 'model_index.json')}: a {index.get('_class_name')}, not {class_name}"
        )
    components = []
    for name, value in index.items():
        match value:
            case ["diffusers" | "transformers" as library, str(part)] if _has_weights(part):
                components.append(_read_component(folder / name, library, part))
            case ["transformers", str(part)] if "Tokenizer" in part:
                _check_tokenizer(folder / name)
    return components


def read_clip(folder: Path) -> Component:
    """Read which files a folder with a CLIPModel, its tokenizer and image processor has.

    Raises: BadWeights naming the file and the reason.
    """
    component = _read_component(folder, "transformers", "CLIPModel")
    _read_json(folder / "preprocessor_config.json")
    _check_tokenizer(folder)
    return component


def read_controlnet(folder: Path) -> Component:
    """Read which files a folder with a ControlNet has.

    Raises: BadWeights naming the file and the reason.
    """
    found = str(_read_json(folder / "config.json").get("_class_name"))
    if found not in CONTROLNETS:
        kinds = " or ".join(CONTROLNETS)
        raise BadWeights(f"{_name(folder / 'config.json')}: a {found}, not {kinds}")
    return _read_component(folder, "diffusers", found)


def read_image_encoder(folder: Path) -> Component:
    """Read which files a folder with the image encoder of an IP-Adapter has.

    Raises: BadWeights naming the file and the reason.
    """
    return _read_component(folder, "transformers", "CLIPVisionModelWithProjection")


def read_absent(folder: Path) -> list[str]:
    """Read which parts a pipeline folder says it does without. Raises: BadWeights."""
    index = _read_json(folder / "model_index.json")
    return [name for name, value in index.items() if value == [None, None]]


def fingerprint(folder: Path) -> str:
    """Tell one model from any other by weights and configuration, without reading all of them.

    A schedule is configuration too. Headers name every tensor; what was trained, or fused with a
    LoRA of some layers alone, differs in one piece or another.
    """
    whole = hashlib.sha256()
    for file in sorted([*folder.rglob("*.safetensors"), *folder.glob("*/*.json")]):
        size = file.stat().st_size
        whole.update(f"{file.relative_to(folder)} {size}\n".encode())
        with file.open("rb") as data:
            for at, length in _samples(size):
                data.seek(at)
                whole.update(data.read(length))
    return whole.hexdigest()


def _samples(size: int) -> Iterator[tuple[int, int]]:
    """Give both ends of a file, and pieces at equal distances between them: place and length."""
    yield 0, _SAMPLE
    for number in range(1, _PIECES):
        yield number * size // _PIECES, _PIECE
    yield max(0, size - _SAMPLE), _SAMPLE


def _has_weights(class_name: str) -> bool:
    return not class_name.endswith(("Scheduler", "Tokenizer", "TokenizerFast", "Processor"))


def _read_component(folder: Path, library: str, class_name: str) -> Component:
    _read_json(folder / "config.json")
    files, variant = _choose_files(folder)
    for file in files:
        _check_file(file)
    return Component(
        name=folder.name,
        library=library,
        class_name=class_name,
        folder=folder,
        files=files,
        variant=variant,
    )


def _check_tokenizer(folder: Path) -> None:
    """Without its files transformers builds an empty one, and every prompt means nothing."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json")):
        raise BadWeights(f"{_name(folder)}: neither tokenizer.json nor vocab.json")


def _choose_files(folder: Path) -> tuple[tuple[Path, ...], str | None]:
    """Prefer files without a variant; else take those of the first one, such as `.fp16.`."""
    found: dict[str | None, list[Path]] = {}
    for file in sorted(folder.glob("*.safetensors")):
        found.setdefault(variant_of(file.name), []).append(file)
    if not found:
        raise BadWeights(f"{_name(folder)}: {_why_none(folder)}")
    variant = min(found, key=lambda name: (name is not None, name != "fp16", name or ""))
    files = tuple(found[variant])
    _check_shards(folder, variant, {file.name for file in files})
    return files, variant


def variant_of(file_name: str) -> str | None:
    """Name the variant of a file of weights, or of their index, such as `fp16`; None: it is plain.

    It stands before the number of a shard, behind it, or behind `index`, as the library was old.
    """
    words = _SHARD.sub("", file_name).split(".")[1:]
    return ".".join(word for word in words if word not in _ENDS) or None


def _why_none(folder: Path) -> str:
    pickles = sorted(file.name for file in (*folder.glob("*.bin"), *folder.glob("*.pt")))
    if pickles:
        return (
            f"only pickled weights ({pickles[0]}), and pickles can run code; need safetensors: "
            "where you trust them, `diffusers.DiffusionPipeline.from_pretrained(FOLDER, "
            "use_safetensors=False).save_pretrained(NEW)`"
        )
    return "no safetensors file"


def _check_shards(folder: Path, variant: str | None, present: Iterable[str]) -> None:
    for index in folder.glob("*.safetensors.index*.json"):
        weight_map = _read_json(index).get("weight_map")
        names = set(weight_map.values()) if isinstance(weight_map, dict) else set()
        if variant_of(index.name) == variant and (absent := sorted(names - set(present))):
            raise BadWeights(f"{_name(folder / absent[0])}: missing, though {index.name} lists it")


def _check_file(file: Path) -> None:
    if not file.is_file():  # who opens a pipe waits for one who writes
        raise BadWeights(f"{_name(file)}: no plain file")
    with file.open("rb") as data:
        length = int.from_bytes(data.read(8), "little")
    if length > MAX_HEADER_BYTES:
        raise BadWeights(f"{_name(file)}: truncated or not safetensors: a header of {length} bytes")
    try:
        with safe_open(file, framework="numpy") as tensors:
            tensors.keys()
    except (SafetensorError, OSError) as error:
        raise BadWeights(f"{_name(file)}: truncated or not safetensors: {error}") from error


def _read_json(file: Path) -> dict[str, object]:
    try:
        value = read_json(file)
    except FileNotFoundError as error:
        raise BadWeights(f"{_name(file)}: missing") from error
    except (OSError, ValueError) as error:
        raise BadWeights(f"{_name(file)}: not readable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadWeights(f"{_name(file)}: not a JSON object")
    return value


def _name(path: Path) -> str:
    """Enough of the path to find it: model, part, file."""
    is_part = path.suffix in {".json", ".safetensors"} and path.name != "model_index.json"
    return "/".join(path.parts[-3 if is_part else -2 :])
