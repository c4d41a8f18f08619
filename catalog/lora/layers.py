"""Read a model's layer names and shapes from its file headers. No torch."""

from pathlib import Path

from catalog.lora.names import BIAS, TEXT_ENCODERS, Shapes
from catalog.safetensors_header import read_header
from core.errors import BadWeights, WeightsRefused

#: Parts of a pipeline that a LoRA may change.
PARTS = ("unet", "transformer", *TEXT_ENCODERS)

_WEIGHT = ".weight"


def read_shapes(folder: Path) -> Shapes:
    """Read the layers of a pipeline's folder; none of one without such parts.

    Embeddings are among them: that no LoRA changes these is found where it is loaded.

    Raises: BadWeights naming the file and the reason.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for file in sorted(file for part in PARTS for file in (folder / part).glob("*.safetensors")):
        try:
            with file.open("rb") as data:
                tensors = read_header(data, file.stat().st_size).tensors
        except (WeightsRefused, OSError) as error:
            raise BadWeights(f"{folder.name}/{file.parent.name}/{file.name}: {error}") from error
        for name, entry in tensors.items():
            path = name.removesuffix(_WEIGHT)
            if (name.endswith(_WEIGHT) and len(entry.shape) in (2, 4)) or name.endswith(BIAS):
                if file.parent.name in TEXT_ENCODERS:
                    path = path.removeprefix("text_model.")
                shapes[f"{file.parent.name}.{path}"] = entry.shape
    return {name: shape for name, shape in shapes.items() if _is_whole(name, shapes)}


def _is_whole(name: str, shapes: Shapes) -> bool:
    """Leave out biases of what is no layer here, such as a norm."""
    return not name.endswith(BIAS) or name.removesuffix(BIAS) in shapes
