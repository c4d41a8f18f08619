"""Per-row mask metadata of a forward pass, as transformer blocks read it."""

from abc import abstractmethod
from collections.abc import Callable, Container, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from catalog.masking.config import Keep
from worker.diffusion.forward_context import ContextPart, ForwardContext
from worker.diffusion.stock import Argument

#: A block's own forward pass.
Whole = Callable[..., Argument]

#: Rows and columns of a feature map.
Box = tuple[slice, slice]

#: What is kept of a template at one step: name of the block that made it, of its caption, or of its
#: keys or values -> [L, C]; [C, L] if it convolves.
Outputs = Mapping[str, Tensor]


class PutOutputs(Mapping[str, Tensor]):
    """Outputs that are worked out where they are wanted, in one pass over them."""

    @abstractmethod
    def put(self, name: str, into: Tensor) -> None:
        """Write one output of this row, and of those that follow it. Shapes: into [R, L, C]."""

    def is_followed_by(self, other: Outputs) -> bool:
        """Tell whether they can be written in one pass with those of the row before."""
        return other is self


class OwnOutputs(dict[str, Tensor]):
    """Outputs of one row, without the batch that they were made in."""

    def __setitem__(self, name: str, output: Tensor) -> None:
        # A view of a row would hold the output of all rows, of every block, until the call ends.
        is_part = output.untyped_storage().nbytes() > output.nbytes
        super().__setitem__(name, output.clone() if is_part else output)


def masked_tokens(cells: Tensor, length: int, dilate: int) -> Tensor:
    """Number the tokens that a mask touches, where an image has `length` of them.

    A UNet halves its latent, rounding up, until there are that many.
    Shapes: cells [h, w], 1 is made anew -> [M], ascending.
    Units:  dilate in tokens, on every side.
    Raises: ValueError if no halving has that many tokens.
    """
    height, width = cells.shape
    while height * width > length:
        height, width = -(-height // 2), -(-width // 2)
    if height * width != length:
        raise ValueError(f"a latent of {tuple(cells.shape)} never has {length} tokens")
    touched = functional.adaptive_max_pool2d(cells[None].float(), (height, width))
    if dilate:
        touched = functional.max_pool2d(touched, 2 * dilate + 1, stride=1, padding=dilate)
    return touched.flatten().nonzero().flatten()


def bounds(tokens: Tensor, width: int) -> Box:
    """Bound tokens of a feature map; an empty box has none. Shapes: [M]."""
    if not len(tokens):
        return slice(0, 0), slice(0, 0)
    sides = (tokens // width, tokens % width)
    top, left = (slice(int(side.min()), int(side.max()) + 1) for side in sides)
    return top, left


@dataclass(slots=True, kw_only=True, eq=False)
class MaskedRow:
    """A row of which only some tokens are computed; the others are as in the template."""

    cells: Tensor  #: the mask at the latent's resolution, [h, w]; 1 is made anew
    dilate: int  #: tokens around the mask that are computed too
    cached: Outputs  #: of this step; blocks that are not in it run in full
    is_told_alike: bool = False  #: as the template was, so that its caption serves
    _tokens: dict[int, Tensor] = field(default_factory=dict)
    _boxes: dict[tuple[int, int], Box] = field(default_factory=dict)

    def tokens(self, length: int) -> Tensor:
        """Number the tokens to compute, worked out once for each length. Shapes: [M]."""
        if length not in self._tokens:
            self._tokens[length] = masked_tokens(self.cells, length, self.dilate)
        return self._tokens[length]

    def box(self, height: int, width: int) -> Box:
        """Bound the tokens to compute on a feature map, worked out once for each size."""
        if (height, width) not in self._boxes:
            self._boxes[height, width] = bounds(self.tokens(height * width), width)
        return self._boxes[height, width]

    def next_step(self, cached: Outputs, is_told_alike: bool = False) -> "MaskedRow":
        """Give the same row at another step."""
        return MaskedRow(
            cells=self.cells,
            dilate=self.dilate,
            cached=cached,
            is_told_alike=is_told_alike,
            _tokens=self._tokens,
            _boxes=self._boxes,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class RecordedRow:
    """A row that runs in full and of which something is kept."""

    keeps: Keep = Keep.OUTPUTS  #: of each block that runs
    outputs: MutableMapping[str, Tensor] = field(default_factory=OwnOutputs)  #: each [L, C]
    has_caption: bool = False  #: whether what blocks make of the caption is kept too


def put(rows: Sequence[MaskedRow], name: str, into: Tensor) -> None:
    """Write one output of each row, in the precision of `into`. Shapes: into [R, L, C]."""
    begin = 0
    while begin < len(rows):
        cached, end = rows[begin].cached, _end_of_edit(rows, begin)
        if isinstance(cached, PutOutputs):
            cached.put(name, into[begin:end])
        else:
            into[begin].copy_(cached[name])
        begin = end


def _end_of_edit(rows: Sequence[MaskedRow], begin: int) -> int:
    """Find the row behind those that are written in one pass with a row."""
    end = begin + 1
    while end < len(rows):
        before = rows[end - 1].cached
        if not isinstance(before, PutOutputs) or not before.is_followed_by(rows[end].cached):
            break
        end += 1
    return end


#: None is a row that runs in full and is not kept.
Row = MaskedRow | RecordedRow | None


@dataclass(frozen=True, slots=True, eq=False)
class EditRows(ContextPart):
    """How each row of a call runs; rows beyond run in full and are not kept."""

    rows: Sequence[Row]


def rows_of(context: ForwardContext) -> Sequence[Row]:
    """Say how the rows of a call run."""
    told = context.get(EditRows)
    return told.rows if told is not None else ()


def caption_of(name: str) -> str:
    """Name what a block makes of the caption."""
    return f"{name}/caption"


def block_of(name: str) -> str:
    """Name the block that something of it belongs to."""
    return name.partition("/")[0]


def select(value: object, rows: Tensor, batch: int) -> object:
    """Pick rows of an argument that has one for each of the batch, and pass on what has not."""
    if torch.is_tensor(value) and value.ndim and len(value) == batch:
        return value[rows]
    return value


@lru_cache(maxsize=64)
def numbered(rows: tuple[int, ...], device: torch.device) -> Tensor:
    """Have numbers of rows on a device, where they are copied once: the host waits for a copy.

    Shapes: [R].
    """
    return torch.tensor(rows, device=device)


def rest_of(masked: Container[int], batch: int) -> list[int]:
    """Number the rows that run in full."""
    return [row for row in range(batch) if row not in masked]
