"""Contact sheet of ControlNet pictures beside their conditions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.control.condition import Kind, view
from zoo.scenes import LEVELS, Picture, Scene, draw

_PER_LEVEL = 2
_ZOOM = 2
_GAP = 4


def save_sheet(
    path: Path, scenes: Sequence[Scene], pictures: Mapping[str, Sequence[Picture]]
) -> None:
    """Save columns of scenes; rows: true, by caption alone, then each condition and its picture."""
    levels = [scene.level for scene in scenes]
    firsts = [levels.index(level) for level in LEVELS if level in levels]
    chosen = [
        first + at for first in firsts for at in range(_PER_LEVEL) if first + at < len(scenes)
    ]
    rows = [[draw(scenes[at]) for at in chosen], [pictures["unsteered"][at] for at in chosen]]
    for kind in [kind for kind in Kind if kind in pictures]:
        rows.append([view(kind, scenes[at]) for at in chosen])
        rows.append([pictures[kind][at] for at in chosen])
    sheet = np.concatenate([_strip(row) for row in rows])
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(sheet)
    size = (image.width * _ZOOM, image.height * _ZOOM)
    image.resize(size, Image.Resampling.NEAREST).save(path, optimize=True)


def _strip(row: Sequence[Picture]) -> Picture:
    padding = ((0, _GAP), (0, _GAP), (0, 0))
    return np.concatenate([np.pad(each, padding, constant_values=255) for each in row], axis=1)
