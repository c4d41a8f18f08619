"""Parse the cells of a trace, column by column, into compact arrays."""

import math
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from core.job import Priority, Quality
from loadgen.ask import Option
from loadgen.workload import Column

#: Largest moment: more than thirty years.
LAST_S = 1e9
#: Most steps of an image, and most images of a job.
MAX_STEPS, MAX_IMAGES = 10_000, 1000
#: Most different names of one column, most characters of a name, and of all prompts together.
MAX_NAMES, MAX_NAME, MAX_TEXT = 10_000, 200, 256 * 1024**2
#: Longest part of a cell that an error repeats.
SHOWN = 60


class CellReader(Protocol):
    """A column while its trace is read."""

    def add(self, cell: str) -> None:
        """Take the cell of the next row; an empty one means the default.

        Raises:
            ValueError: it is no value of this column.
        """
        ...

    @property
    def column(self) -> Column:
        """Give what was read, in the order of the rows."""
        ...


def whole(low: int, high: int) -> Callable[[str], int]:
    """Parse a whole number between two others, both included."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and "_" not in text and len(text) < 20 else None
        if number is None or not low <= number <= high:
            raise ValueError(f"{text[:SHOWN]!r} is no whole number from {low} to {high}")
        return number

    return parse


def real(low: float, high: float) -> Callable[[str], float]:
    """Parse a number between two others, both included."""

    def parse(text: str) -> float:
        number = float(text) if text.isascii() and "_" not in text else math.nan
        if not low <= number <= high:
            raise ValueError(f"{text[:SHOWN]!r} is no number from {low:g} to {high:g}")
        return number

    return parse


def one_of(*names: str) -> Callable[[str], str]:
    """Parse one of a few words."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"{text[:SHOWN]!r} is none of {', '.join(names)}")
        return text

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of numbers."""

    column: str  #: of the workload
    code: str  #: of `array`
    default: float
    parse: Callable[[str], float]


#: Columns of numbers that a workload has, too.
FIELDS: Mapping[str, Field] = {
    "steps": Field(column="steps", code="i", default=0, parse=whole(1, MAX_STEPS)),
    "n": Field(column="images", code="i", default=1, parse=whole(1, MAX_IMAGES)),
    "width": Field(column="width", code="i", default=0, parse=whole(1, 65_536)),
    "height": Field(column="height", code="i", default=0, parse=whole(1, 65_536)),
    "mask_ratio": Field(column="mask_ratio", code="d", default=0.0, parse=real(0, 1)),
    "loras": Field(column="loras", code="i", default=0, parse=whole(0, 100)),
    "controls": Field(column="controls", code="i", default=0, parse=whole(0, 100)),
    "cancel_s": Field(column="cancel_s", code="d", default=math.nan, parse=real(0, LAST_S)),
}
#: Other fields of a request's body.
OTHERS: Mapping[str, Callable[[str], Option]] = {
    "priority": one_of(*(each.value for each in Priority)),
    "quality": one_of(*(each.value for each in Quality)),
    "seed": whole(0, 2**63 - 1),
    "guidance": real(0, 1000),
    "deadline_s": real(0, LAST_S),
}


class Moments:
    """When requests are due."""

    def __init__(self, *, is_sorted: bool) -> None:
        self._at, self._is_sorted, self._last_s = array("d"), is_sorted, 0.0
        self._parse = real(0, LAST_S)

    def add(self, cell: str) -> None:
        """Take the next moment."""
        at_s = self._parse(cell)
        if self._is_sorted and at_s < self._last_s:
            raise ValueError(f"{at_s:g} is before the row above; a trace is sorted")
        self._last_s = at_s
        self._at.append(at_s)

    @property
    def column(self) -> Column:
        """Give the moments."""
        return np.array(self._at, np.float64)


class Numbers:
    """Numbers of one field."""

    def __init__(self, field: Field) -> None:
        self._default, self._parse = field.default, field.parse
        self._values: array[Any] = array(field.code)

    def add(self, cell: str) -> None:
        """Take the next number."""
        self._values.append(self._parse(cell) if cell else self._default)

    @property
    def column(self) -> Column:
        """Give the numbers."""
        return np.array(self._values)


class Names:
    """Names of one field; each is kept once."""

    def __init__(self, known: Collection[str] | None = None) -> None:
        """Prepare; `known`: names that there are, None: any."""
        self._known = known
        self._indices: dict[str, int] = {}
        self._values = array("i")

    def add(self, cell: str) -> None:
        """Take the next name."""
        if cell not in self._indices and cell:
            if len(cell) > MAX_NAME or not cell.isprintable():
                raise ValueError(f"a name has at most {MAX_NAME} printable characters")
            if len(self._indices) == MAX_NAMES:
                raise ValueError(f"more than {MAX_NAMES} different names")
            if self._known is not None and cell not in self._known:
                raise ValueError(f"{cell!r} is none of {', '.join(sorted(self._known))}")
            self._indices[cell] = len(self._indices)
        self._values.append(self._indices[cell] if cell else -1)

    @property
    def column(self) -> Column:
        """Give the index of each row's name; -1: none."""
        return np.array(self._values, np.int32)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, in the order of its first row."""
        return tuple(self._indices)


class Prompts:
    """Prompts; rows without one take turns through those that were given."""

    def __init__(self, given: Sequence[str]) -> None:
        self._count = len(given)
        self._texts = list(given)
        self._indices = {text: index for index, text in enumerate(given)}
        self._values = array("i")
        self._length = 0

    def add(self, cell: str) -> None:
        """Take the next prompt."""
        if cell and cell not in self._indices:
            self._length += len(cell)
            if self._length > MAX_TEXT:
                raise ValueError(f"all prompts together have more than {MAX_TEXT} characters")
            self._indices[cell] = len(self._texts)
            self._texts.append(cell)
        turn = len(self._values) % self._count
        self._values.append(self._indices[cell] if cell else turn)

    @property
    def column(self) -> Column:
        """Give the index of each row's prompt."""
        return np.array(self._values, np.int32)

    @property
    def texts(self) -> tuple[str, ...]:
        """Every prompt: those given, then those of the trace."""
        return tuple(self._texts)


class OtherValues:
    """Values of a field of the body that a workload has no column for."""

    def __init__(self, parse: Callable[[str], Option]) -> None:
        self._parse = parse
        self._values: list[Option] = []

    def add(self, cell: str) -> None:
        """Take the next value."""
        self._values.append(self._parse(cell) if cell else None)

    @property
    def column(self) -> Column:
        """Give the values; None where it is left out."""
        return np.array(self._values, object)
