"""Tensors in safetensors files, each read for itself: mapped as it lies there, or cast on the way.

All files are mapped. What is stored in the precision that is asked for stays so: its pages come
from the file when they are touched, and are shared by all processes that serve it, until somebody
writes to them (a LoRA is merged): those pages become the process's own. What is cast is copied
piece by piece, and what was read of the file is let go of at once: it would count beside the copy.
"""

import ctypes
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import EllipsisType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

#: Values that are cast at a time.
_PIECE = 2**22


class StoredTensor:
    """One tensor of a file. Indexed, as transformers does with a slice of a file, it is read."""

    def __init__(self, file: Any, name: str, dtype: torch.dtype) -> None:  # noqa: ANN401 - of safetensors
        self._file = file
        self._name = name
        self.dtype = dtype  #: that it is read in, unless it is of integers

    def __getitem__(self, whole: EllipsisType) -> Tensor:
        mapped: Tensor = self._file.get_tensor(self._name)[whole]
        is_as_stored = mapped.dtype == self.dtype or not mapped.is_floating_point()
        return mapped if is_as_stored else _cast(mapped, self.dtype)


@contextmanager
def open_tensors(files: Sequence[Path], dtype: torch.dtype) -> Iterator[dict[str, StoredTensor]]:
    """Open files, to read their tensors in one precision while the context lasts."""
    with ExitStack() as opened:
        tensors: dict[str, StoredTensor] = {}
        for path in files:
            file = opened.enter_context(safe_open(path, framework="pt"))
            names = file.keys()
            tensors |= {name: StoredTensor(file, name, dtype) for name in names}
        yield tensors


def _cast(mapped: Tensor, dtype: torch.dtype) -> Tensor:
    made = torch.empty(mapped.shape, dtype=dtype)
    sources, targets = (torch.split(each.view(-1), _PIECE) for each in (mapped, made))
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)
        _forget(source)
    return made


def _forget(mapped: Tensor) -> None:
    """Let go of the pages that lie in a mapped tensor alone; they can be read again."""
    begin = -(-mapped.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (mapped.data_ptr() + mapped.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        _madvise()(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)


_DONTNEED = getattr(mmap, "MADV_DONTNEED", 0)


@cache
def _madvise() -> Callable[..., int]:
    """Find what lets go of pages; without it they stay until the file is closed."""
    advise: Callable[..., int] = getattr(ctypes.CDLL(None), "madvise", lambda *of: 0)
    return advise
