"""Split the rows of a batch between two devices. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


class Divisible(Protocol):
    """An image whose rows may be computed apart."""

    @property
    def rows(self) -> int: ...
    @property
    def stays(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Halves:
    """The rows of a batch, each by its number, rising."""

    here: tuple[int, ...]
    there: tuple[int, ...]  #: on the second device


def halve(samples: Sequence[Divisible]) -> Halves:
    """Divide the rows of a batch: of a guided image, the conditional one goes to the other device.

    Source: SwiftDiffusion §4.3, for many images: each row goes where fewer are, so that images of
    one row share the devices too. Edits under masks and images with T2I-Adapters stay
    here, where their recordings and features are.
    """
    numbered = list(_numbered(samples))
    here = [row for sample, rows in numbered if sample.stays for row in rows]
    there: list[int] = []
    for sample, rows in numbered:
        for row in rows if not sample.stays else ():
            (here if len(here) <= len(there) else there).append(row)
    return Halves(tuple(sorted(here)), tuple(there))


def _numbered(samples: Sequence[Divisible]) -> Iterator[tuple[Divisible, range]]:
    end = 0
    for sample in samples:
        begin, end = end, end + sample.rows
        yield sample, range(begin, end)
