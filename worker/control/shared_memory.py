"""Shared memory into which another process of this host writes residuals.

The memory has no name in any file system, so none is left behind, however its processes end.
"""

import mmap
import os
import secrets
from dataclasses import dataclass, field

import msgspec

#: At the begin of an arena: tells it from others of the same path.
_TOKEN_BYTES = 16
#: Blocks begin at multiples of this, as vector instructions like it.
_ALIGNMENT = 64


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where in which arena."""

    path: str  #: by which processes of this host may open it
    token: str
    size: int  #: bytes of the arena
    at: int  #: bytes from its begin
    room: int | None = None  #: bytes that may be written; None: an older base worker says nothing


@dataclass(slots=True, kw_only=True, eq=False)
class Block:
    """A part of an arena that is taken."""

    arena: "SharedMemory"
    begin: int  #: bytes from its begin
    end: int
    is_taken: bool = True

    def place(self, offset: int, room: int) -> Place:
        """Name a part of it of `room` bytes, so many bytes from its own begin."""
        arena, at = self.arena, self.begin + offset
        return Place(path=arena.path, token=arena.token, size=arena.size, at=at, room=room)

    def release(self) -> None:
        """Give it back. May be called twice."""
        if self.is_taken:
            self.is_taken = False
            self.arena.blocks.remove(self)


@dataclass(slots=True, eq=False)
class SharedMemory:
    """Memory of this process that others may write to. Pages are taken once they are used."""

    size: int  #: bytes
    memory: mmap.mmap = field(init=False)
    path: str = field(init=False)
    token: str = field(init=False)
    blocks: list[Block] = field(default_factory=list)  #: in the order they lie
    _fd: int = field(init=False)

    def __post_init__(self) -> None:
        self.size += _TOKEN_BYTES
        self._fd = os.memfd_create("atelier-residuals")
        os.ftruncate(self._fd, self.size)
        self.memory = mmap.mmap(self._fd, self.size)
        self.path = f"/proc/{os.getpid()}/fd/{self._fd}"
        self.token = secrets.token_hex(_TOKEN_BYTES // 2)
        self.memory[:_TOKEN_BYTES] = self.token.encode()

    def take(self, num_bytes: int) -> Block | None:
        """Take a block where the first fits; None if none does."""
        begin = _ALIGNMENT
        for index, block in enumerate([*self.blocks, None]):
            end = self.size if block is None else block.begin
            if begin + num_bytes <= end:
                taken = Block(arena=self, begin=begin, end=begin + num_bytes)
                self.blocks.insert(index, taken)
                return taken
            if block is not None:
                begin = -(-block.end // _ALIGNMENT) * _ALIGNMENT
        return None

    def __del__(self) -> None:
        os.close(self._fd)


def open_arena(place: Place) -> mmap.mmap | None:
    """Open the arena of another process; None if that is not on this host, or has ended."""
    try:
        fd = os.open(place.path, os.O_RDWR)
    except OSError:
        return None
    try:
        memory = mmap.mmap(fd, place.size)
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    return memory if memory[:_TOKEN_BYTES] == place.token.encode() else None
