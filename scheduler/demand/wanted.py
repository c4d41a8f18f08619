"""Know which models are asked for in vain. Pure: the caller brings the clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

PATIENCE_S = 10.0  #: a client that asks for a model no more by then has given up


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """When a model was asked for that nobody holds, in epoch s."""

    first: float
    last: float


class WantedModels:
    """Models asked for by name that the plan does not have."""

    def __init__(self) -> None:
        """Know of none."""
        self._wishes: dict[str, Wish] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._wishes)

    def __len__(self) -> int:
        return len(self._wishes)

    def ask(self, model: str, now: float) -> None:
        """Note that somebody asks for a model."""
        before = self._wishes.get(model)
        self._wishes[model] = Wish(first=before.first if before else now, last=now)

    def waited(self, now: float) -> dict[str, float]:
        """Say for how long models have been asked for in vain, by clients that still do."""
        self._wishes = {m: w for m, w in self._wishes.items() if now - w.last <= PATIENCE_S}
        return {model: now - wish.first for model, wish in self._wishes.items()}

    def forget(self, is_over: Callable[[str], bool]) -> None:
        """Forget models of which there is no more to be asked."""
        self._wishes = {m: w for m, w in self._wishes.items() if not is_over(m)}
