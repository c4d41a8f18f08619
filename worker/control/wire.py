"""Wire protocol of base and ControlNet workers: message frames, then tensor frames.

An offer travels through the queue; whoever takes it connects to the base worker that made it, and
all else goes over that connection.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from worker.control.shared_memory import Place
from worker.diffusion.device import DTYPES

_DTYPES = {**DTYPES, "uint8": torch.uint8, "int64": torch.int64}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class Message(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first frame of everything that is sent."""


class Spec(msgspec.Struct, frozen=True, array_like=True):
    """What the bytes of a frame are."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return int(torch.Size(self.shape).numel() * _DTYPES[self.dtype].itemsize)


class Taken(Message, frozen=True):
    """To the base: the ControlNet is being loaded, so wait for it."""

    session: str


class Ready(Message, frozen=True):
    """To the base: the ControlNet is in memory, so begin."""

    session: str


class Begin(Message, frozen=True):
    """To the ControlNet: what it is told once. Frames: condition, text, and each added."""

    session: str
    condition: Spec
    text: Spec
    added: dict[str, Spec]


class StepAsk(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one session."""

    session: str
    position: int  #: of the schedule
    time: float  #: timestep
    scale: float  #: of the residuals
    latents: Spec
    place: Place | None  #: where residuals go; None: behind the answer


class Steps(Message, frozen=True):
    """To the ControlNet: steps to compute, together if they are alike. Frames: latents of each."""

    steps: tuple[StepAsk, ...]


class Answer(Message, frozen=True):
    """To the base: some residuals are computed. Frames: each of them, unless they had a place."""

    session: str
    position: int  #: of the schedule
    total: int  #: residuals of this step
    split: int  #: of them, for the first of two kinds of blocks
    first: int  #: number of the first of these; they lie behind those before it
    parts: tuple[Spec, ...]
    is_placed: bool
    held_s: float  #: from the ask to the answer, on this side


class Failed(Message, frozen=True):
    """To the base: this session will get no answer."""

    session: str
    reason: str


class SessionGone(Message, frozen=True, tag="Gone"):
    """To the base: this session is not here, so nothing is written to its memory any more.

    It is over, or to be offered again.
    """

    session: str


class End(Message, frozen=True):
    """To the ControlNet: nothing more is asked in this session."""

    session: str


class Ping(Message, frozen=True):
    """To the ControlNet: are you there? Sending it tells; it is not answered."""


ToBase: TypeAlias = Taken | Ready | Answer | Failed | SessionGone
ToControl: TypeAlias = Begin | Steps | End | Ping

_encoder = msgspec.msgpack.Encoder()
#: Reads the first frame of what comes.
read_to_base = msgspec.msgpack.Decoder(ToBase).decode
read_to_control = msgspec.msgpack.Decoder(ToControl).decode


def frames(message: Message, tensors: Sequence[Tensor] = ()) -> list[bytes | memoryview]:
    """Write a message and what is behind it."""
    return [_encoder.encode(message), *(_bytes(tensor) for tensor in tensors)]


def spec(tensor: Tensor) -> Spec:
    """Say what the bytes of a tensor are."""
    return Spec(_NAMES[tensor.dtype], tuple(tensor.shape))


def tensor(of: Spec, data: bytes | memoryview | bytearray) -> Tensor:
    """Read a tensor from a frame of its own."""
    return view(of, bytearray(data), 0)


def view(of: Spec, memory: object, at: int) -> Tensor:
    """See a tensor in memory that others write to, or read."""
    dtype = _DTYPES[of.dtype]
    count = of.num_bytes // dtype.itemsize
    flat = torch.frombuffer(memory, dtype=dtype, count=count, offset=at)
    return flat.view(of.shape)


def _bytes(tensor: Tensor) -> memoryview:
    flat = tensor.detach().cpu().contiguous().flatten()
    array: NDArray[np.uint8] = flat.view(torch.uint8).numpy()
    return array.data
