"""LoRA alphas in safetensors metadata, as diffusers writes them. Pure."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from catalog.safetensors_header import MAX_TENSORS
from core.errors import WeightsRefused
from core.text import shorten

#: Where diffusers keeps how each part was configured, as JSON: `unet.lora_alpha` and so on.
_KEY = "lora_adapter_metadata"

_NAME = re.compile(r"[\w.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedAlphas:
    """What a file states of its alphas; nothing, as most files do."""

    alphas: Mapping[str, float] = field(default_factory=dict)  #: by part
    #: By part, then by layer or the end of its name: which exception it is, and its alpha.
    exceptions: Mapping[str, Mapping[str, tuple[int, float]]] = field(default_factory=dict)
    by_root: frozenset[str] = frozenset()  #: parts whose products count by the root of their rank
    dora: frozenset[str] = frozenset()  #: parts whose layers have magnitudes

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> "StatedAlphas":
        """Raises: WeightsRefused if it cannot be read."""
        try:
            stated = msgspec.json.decode(metadata.get(_KEY, "{}"), type=dict[str, object])
            exceptions = {
                _part(key): msgspec.convert(value, dict[str, float])
                for key, value in stated.items()
                if key.endswith("alpha_pattern")
            }
            alphas = {
                _part(key): msgspec.convert(value, float, strict=False)
                for key, value in stated.items()
                if key.endswith("lora_alpha")
            }
        except (msgspec.MsgspecError, OverflowError, RecursionError) as error:
            raise WeightsRefused(f"{_KEY}: {error}") from error
        if (count := sum(map(len, exceptions.values()))) > MAX_TENSORS:
            raise WeightsRefused(f"{_KEY}: {count} patterns; at most {MAX_TENSORS} are read")
        _refuse_patterns(exceptions)
        rooted = {_part(key) for key, on in stated.items() if key.endswith("use_rslora") and on}
        dora = {_part(key) for key, on in stated.items() if key.endswith("use_dora") and on}
        return cls(
            alphas=alphas,
            exceptions={part: _numbered(names) for part, names in exceptions.items()},
            by_root=frozenset(rooted),
            dora=frozenset(dora),
        )

    def scale(self, layer: str, alpha: float | None, rank: int) -> float:
        """Compute by how much a product counts: alpha / rank, where alpha is its own tensor's.

        Without one it is as stated, and without that the rank. Raises: WeightsRefused.
        """
        part, _, path = layer.partition(".")
        if alpha is None:
            alpha = self._alpha(part, path, float(rank))
        if not math.isfinite(alpha):
            raise WeightsRefused(f"{layer}: alpha is {alpha}")
        return alpha / (math.sqrt(rank) if part in self.by_root else rank)

    def check(self, layer: str, *, has_magnitudes: bool) -> None:
        """Refuse a DoRA whose magnitudes are lost. Raises: WeightsRefused."""
        if layer.partition(".")[0] in self.dora and not has_magnitudes:
            raise WeightsRefused(f"{layer}: {_KEY} says DoRA, and the magnitudes are missing")

    def _alpha(self, part: str, path: str, otherwise: float) -> float:
        """Find the first exception that the name of a layer ends with, whatever their number."""
        names, ends = self.exceptions.get(part, {}), path.split(".")
        found = (names.get(".".join(ends[at:])) for at in range(len(ends)))
        first = min((each for each in found if each is not None), default=None)
        return self.alphas.get(part, otherwise) if first is None else first[1]


def _numbered(names: Mapping[str, float]) -> dict[str, tuple[int, float]]:
    numbered: dict[str, tuple[int, float]] = {}
    for at, (name, alpha) in enumerate(names.items()):
        numbered.setdefault(name.removeprefix("text_model."), (at, alpha))
    return numbered


def _part(key: str) -> str:
    """Tell whose key it is: `unet.lora_alpha` -> `unet`."""
    return key.rpartition(".")[0]


def _refuse_patterns(exceptions: Mapping[str, Mapping[str, float]]) -> None:
    """Peft reads names as regular expressions; a stranger's are not run here."""
    for name in (name for names in exceptions.values() for name in names):
        if not _NAME.fullmatch(name):
            raise WeightsRefused(
                f"{_KEY}: {shorten(name)!r} is an expression, not the name of a layer"
            )
