"""Device helpers: asynchronous copies, side streams and a bound on host run-ahead.

Without CUDA nothing here waits or copies.
"""

import ctypes
import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from core.errors import ConfigurationError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


#: Of the heap (glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD): how many bytes that are free at its
#: end it keeps, and up to what size memory comes from it; more the library does not take.
_HEAP = {-1: 2**28, -3: 2**25}


def use_host(threads: int) -> None:
    """Compute with so many threads on the host, whose heap keeps for the next step what one frees.

    Else the kernel may take those pages back and clear them anew: up to a tenth of a step on a CPU.
    """
    torch.set_num_threads(threads)
    mallopt: Callable[[int, int], int] | None = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other libraries need not be told
        for option, value in _HEAP.items():
            mallopt(option, value)


def parse_device(name: str, setting: str = "ATELIER_DEVICE") -> torch.device:
    """Raises: ConfigurationError naming the setting if there is none of this name here."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"{setting}: {name!r}: {reason}") from error
    return device


def parse_dtype(name: str) -> torch.dtype:
    """Raises: ConfigurationError if it is none that models run in."""
    if name not in DTYPES:
        raise ConfigurationError(f"ATELIER_DTYPE: {name!r} is none of {', '.join(DTYPES)}")
    return DTYPES[name]


def as_tensor(array: NDArray[np.uint8]) -> Tensor:
    """Share an array's memory, or copy it where it is not to be written: nor is the tensor."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy from the host without making the host wait: pinned, on the current stream.

    What is on a device already stays there.
    """
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Tensor:
    """Copy to the host without making it wait.

    The copy is whole once the device has done all that it was told before.
    """
    if tensor.device.type != "cuda":
        return tensor.clone()
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor, non_blocking=True)


def told(device: torch.device) -> Callable[[], None]:
    """Give what waits until a device has done all that it was told until now."""
    if device.type != "cuda":
        return lambda: None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    synchronize: Callable[[], None] = event.synchronize
    return synchronize


def order_channels(device: torch.device, *modules: torch.nn.Module) -> None:
    """Keep the weights of convolutions in the order that a GPU multiplies in: channels last."""
    if device.type == "cuda":
        for module in modules:
            module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@contextmanager
def on_side_stream(device: torch.device) -> Iterator[None]:
    """Do device work beside the running batch, and end only once it is done."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    with torch.cuda.device(device), torch.cuda.stream(stream):
        yield
    stream.synchronize()


def give_memory_back(device: torch.device) -> None:
    """Return to the device and to the host what nobody holds any more.

    What holds each other in cycles goes first: an empty cache has no room for what is in use.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    _heap_trimmer()(0)


@cache
def _heap_trimmer() -> Callable[[int], int]:
    """Find what gives free pages of the heap back: glibc keeps them, others need not be told."""
    trim: Callable[[int], int] = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)
    return trim


class DevicePace:
    """Keeps the host at most `ahead` forward passes ahead of the device.

    Without it the host would launch whole schedules in advance, and a new request or a stop
    would wait behind all of them.
    """

    def __init__(self, device: torch.device, ahead: int = 1) -> None:
        self._device = device
        self._ahead = ahead
        self._events: deque[torch.cuda.Event] = deque()

    def wait(self) -> None:
        """Wait until no more than `ahead` marked passes are unfinished."""
        while len(self._events) > self._ahead:
            self._events.popleft().synchronize()

    def mark(self) -> None:
        """Note that a pass has been launched."""
        if self._device.type == "cuda":
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self._device))
            self._events.append(event)
