"""Read files of learned embeddings (textual inversion). No torch.

Tools write them in three ways, all as safetensors: diffusers one tensor by the name of its word,
A1111 one tensor `emb_params`, both for one text encoder; for SDXL two, `clip_l` and `clip_g`.
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Final

import numpy as np
from numpy.typing import NDArray

from catalog.lora.names import TEXT_ENCODERS, Shapes
from catalog.safetensors_header import Header, TensorEntry, read_header
from core.errors import WeightsRefused

#: Tokens that one word may be read as.
MAX_VECTORS: Final = 64
#: Bytes of a file: so many vectors of the widest encoders in float32, and a header.
MAX_BYTES: Final = 2**20
#: Names of the tensors of one file, in the order of the text encoders; a single one has any name.
PAIRS: Final = (("clip_l", "clip_g"), ("text_encoders_0", "text_encoders_1"))
#: What tools call the tensor where its word is named elsewhere.
UNNAMED: Final = ("emb_params", "*")

_FORMATS: Final = {"F16": "<f2", "F32": "<f4", "BF16": "<u2"}
#: A layer of every CLIP encoder, as wide as its tokens.
_LAYER: Final = "encoder.layers.0.self_attn.q_proj"

#: Vectors of a word, for each text encoder. Shapes: each [V, D].
Vectors = tuple[NDArray[np.float32], ...]


def widths_of(shapes: Shapes) -> tuple[int, ...]:
    """Give how wide the tokens of each CLIP encoder of a model are."""
    layers = [shapes.get(f"{encoder}.{_LAYER}") for encoder in TEXT_ENCODERS]
    return tuple(shape[1] for shape in layers if shape is not None)


def word_of(header: Header) -> str | None:
    """Give the word that a file names itself by, if it does."""
    names = list(header.tensors)
    return names[0] if len(names) == 1 and names[0] not in UNNAMED else None


def check_fit(header: Header, widths: tuple[int, ...]) -> int:
    """Count the vectors of a word for text encoders of these widths.

    Raises: WeightsRefused saying why a file does not fit them.
    """
    entries = _entries(header.tensors)
    found = tuple(_shape(name, entry) for name, entry in entries.items())
    if tuple(width for _, width in found) != widths:
        has, asked = (" and ".join(map(str, each)) for each in ([w for _, w in found], widths))
        raise WeightsRefused(
            f"vectors of {has} numbers, where its text encoders read {asked or 'none'}"
        )
    counts = {count for count, _ in found}
    if len(counts) != 1:
        raise WeightsRefused("another number of vectors for each text encoder")
    [count] = counts
    if not 1 <= count <= MAX_VECTORS:
        raise WeightsRefused(f"{count} vectors; a word may have from 1 to {MAX_VECTORS}")
    return count


def read_vectors(data: bytes) -> Vectors:
    """Read the vectors of a file, those of each text encoder.

    Raises: WeightsRefused if it is no such file, or a number in it is not finite.
    """
    header = read_header(BytesIO(data), len(data))
    vectors = tuple(_read(data, entry) for entry in _entries(header.tensors).values())
    if not all(np.isfinite(each).all() for each in vectors):
        raise WeightsRefused("numbers that are not finite")
    return vectors


def _entries(tensors: Mapping[str, TensorEntry]) -> dict[str, TensorEntry]:
    """Put the tensors in the order of the text encoders."""
    if len(tensors) == 1:
        return dict(tensors)
    for pair in PAIRS:
        if tensors.keys() == {*pair}:
            return {name: tensors[name] for name in pair}
    known = " or ".join(" and ".join(pair) for pair in PAIRS)
    raise WeightsRefused(f"{len(tensors)} tensors; an embedding has one, or {known}")


def _shape(name: str, entry: TensorEntry) -> tuple[int, int]:
    if entry.dtype not in _FORMATS:
        raise WeightsRefused(
            f"{name[:64]}: numbers as {entry.dtype}; {', '.join(_FORMATS)} are read"
        )
    if len(entry.shape) not in (1, 2):
        raise WeightsRefused(f"{name[:64]}: {len(entry.shape)} dimensions; an embedding has 1 or 2")
    return (entry.shape[0] if len(entry.shape) == 2 else 1), entry.shape[-1]


def _read(data: bytes, entry: TensorEntry) -> NDArray[np.float32]:
    raw = np.frombuffer(data[entry.begin : entry.end], _FORMATS[entry.dtype])
    if entry.dtype == "BF16":
        raw = (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float32).reshape(-1, entry.shape[-1])
