"""Residuals that arrive one by one; reading one blocks until it is there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(slots=True, kw_only=True)
class ArrivedResiduals:
    """What has come of the residuals of one step."""

    total: int  #: residuals that there will be
    split: int  #: of them, for the first of two kinds of blocks
    parts: list[Tensor] = field(default_factory=list)  #: the first of them
    _told_bytes: int = 0  #: of those that whoever sends them now has told of

    @property
    def is_whole(self) -> bool:
        return len(self.parts) == self.total

    def add(self, first: int, parts: Sequence[Tensor]) -> None:
        """Take what is new of these: somebody who was lost may have sent some of them before."""
        self.parts += parts[len(self.parts) - first :]

    def pass_bytes(self, first: int, num_bytes: int) -> int:
        """Note that whoever sends tells of more; say how many bytes it has told of before.

        Not what has come: somebody who was lost may have computed that with another precision.
        """
        before = self._told_bytes if first else 0
        self._told_bytes = before + num_bytes
        return before


@dataclass(frozen=True, slots=True, eq=False)
class Streamed:
    """Residuals of one step, each found when it is first read."""

    count: int
    find: Callable[[int], Tensor]  #: by number; may wait, and raise
    split: int = 0  #: of them, for the first of two kinds of blocks
    found: dict[int, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int, /) -> Tensor:
        number = range(self.count)[at]
        if number not in self.found:
            self.found[number] = self.find(number)
        return self.found[number]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[number] for number in range(self.count))
