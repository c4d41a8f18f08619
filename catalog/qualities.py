"""Read from a profile how good each model was found to be, over all prompts."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from catalog.profiled import read_profiled
from core.levels.level import Level

#: Names that profiles have for all prompts, and for the families of levels: the largest first.
_ANY, _FAMILIES = "any", ("all", "sm")

_Rows = dict[str, dict[str, float]]


class _Family(msgspec.Struct):
    quality: _Rows = {}


class _Qualities(msgspec.Struct):
    quality: _Rows = {}
    families: dict[str, _Family] = {}


def read_qualities(path: Path) -> Mapping[str, float]:
    """Read the mean relative quality of the models that were measured, by name.

    Raises:
        ConfigurationError: the file is not a profile; the message names it.
    """
    found = read_profiled(path, _Qualities)
    rows = [found.families[each].quality for each in _FAMILIES if each in found.families]
    known: dict[str, float] = {}
    for row in reversed([found.quality, *rows]):
        exact = {Level.read(name): quality for name, quality in row.get(_ANY, {}).items()}
        known |= {level.model: quality for level, quality in exact.items() if level.is_exact}
    return known
