"""Tensor transport of the two ranks: torch.distributed, announced over a pipe.

The pipe says what comes and how large it is, and ends with the process at its other end: nobody
waits for a tensor of a process that has died. gloo between CPUs, NCCL between GPUs.
"""

import os
import socket
import struct
import weakref
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from core.errors import EngineError
from worker.parallel.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

#: For a tensor that has been announced, and for the first meeting.
_TIMEOUT = timedelta(seconds=60)
#: For the other to read an announcement: it has nothing else to do then.
SENDING_S = 10.0

#: A process group of torch.distributed; both backends send and receive alike.
Group = Any


class LinkLost(EngineError):
    """The other rank has died, or does not answer."""


class Link:
    """The end of one rank. Both ranks send and receive in the same order."""

    def __init__(self, pipe: Connection, group: Group, other: int, device: torch.device) -> None:
        _limit_sends(pipe)
        self._pipe = pipe
        self._group = group
        self._other = other
        self._device = device
        self._sending: list[tuple[Any, Tensor]] = []  #: tensors stay until the other has them

    @classmethod
    def open(cls, pipe: Connection, meeting: Path, rank: int, device: torch.device) -> "Link":
        """Meet the other rank, who opens its end at the same file. Raises: LinkLost."""
        with _losing():
            link = cls(pipe, _open_group(meeting, rank, device), 1 - rank, device)
            # Backends connect when they are first used: here, where nobody waits for it.
            hello = torch.zeros(1, device=device)
            link._send(hello)
            link._receive(hello.shape, hello.dtype)
        return link

    def send(self, message: Message, tensors: Sequence[Tensor] = ()) -> None:
        """Send without waiting for the other to take it.

        Raises: LinkLost, also if it has not even read what was sent before.
        """
        with _losing():
            self._pipe.send((message, [(each.shape, each.dtype) for each in tensors]))
            for each in tensors:
                self._send(each)

    def receive(self, patience_s: float | None = None) -> tuple[Message, list[Tensor]]:
        """Wait for the next message; the other has everything that was sent before it.

        Raises: LinkLost, also if nothing comes in time.
        """
        with _losing():
            if patience_s is not None and not self._pipe.poll(patience_s):
                raise LinkLost(f"no answer in {patience_s:.0f} s")
            message, shapes = self._pipe.recv()
            for work, _ in self._sending:
                work.wait()
            self._sending.clear()
            return message, [self._receive(*each) for each in shapes]

    def close(self) -> None:
        """Have the other rank end."""
        self._pipe.close()

    def abort(self) -> None:
        """Give up what is on its way: a device may be waiting for it."""
        self._group.abort()

    def _send(self, tensor: Tensor) -> None:
        here = tensor.detach().to(self._device).contiguous()
        self._sending.append((self._group.send([here], self._other, 0), here))

    def _receive(self, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        tensor = torch.empty(shape, dtype=dtype, device=self._device)
        self._group.recv([tensor], self._other, 0).wait()
        return tensor


@contextmanager
def _losing() -> "Iterator[None]":
    try:
        yield
    except BlockingIOError as error:
        raise LinkLost(f"its process has read nothing for {SENDING_S:g} s") from error
    except (EOFError, OSError) as error:
        raise LinkLost(f"its process has ended ({type(error).__name__})") from error
    except RuntimeError as error:  # of torch.distributed
        raise LinkLost(str(error).partition("\n")[0]) from error


def _limit_sends(pipe: Connection) -> None:
    """Have a full pipe fail in the end: a process that has stopped keeps it open."""
    limit = struct.pack("ll", int(SENDING_S), int(SENDING_S % 1 * 1e6))  # s, us
    with socket.socket(fileno=os.dup(pipe.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _open_group(meeting: Path, rank: int, device: torch.device) -> Group:
    """Open a group that no other shares: one process may have a second rank for each model.

    Its store writes to its file once more when it goes, whenever that is: under a number that is
    another file's by then, it would write there, and read for ever.
    """
    with ExitStack() as opened:
        own = os.open(meeting, os.O_RDWR)
        opened.callback(os.close, own)
        group = _meet(f"/proc/self/fd/{own}", rank, device)
        weakref.finalize(group, opened.pop_all().close)
    return group


def _meet(path: str, rank: int, device: torch.device) -> Group:
    c10d: Any = distributed  # half of what it exports is not in its stubs
    store = c10d.FileStore(path, 2)
    if device.type == "cuda":
        nccl = c10d.ProcessGroupNCCL
        options = nccl.Options()
        options._timeout = _TIMEOUT
        return nccl(store, rank, 2, options)
    gloo = c10d.ProcessGroupGloo
    options = gloo._Options()
    options._timeout = _TIMEOUT
    options._devices = [gloo.create_device(hostname="127.0.0.1")]
    return gloo(store, rank, 2, options)
