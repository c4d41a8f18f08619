"""Measure the memory that a computation takes beside its weights, on the device without memory.

Tensors of torch's meta device have shapes and nothing else: a network of any size is run through in
a fraction of a second, and what is alive at a time is added up.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def peak_bytes(compute: Callable[[], object]) -> int:
    """Say how many bytes of tensors are alive at once, at most, that a computation makes."""
    alive = _Alive()
    with torch.inference_mode(), alive, _Attention():
        made = compute()
        del made
    return alive.peak


class _Alive(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the storages of tensors that were made and are not gone yet."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._now = 0
        self._tensors: Counter[int] = Counter()  #: by storage

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - of torch
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor):
                self._note(each)
        return made

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if not self._tensors[key]:
            self._now += size
            self.peak = max(self.peak, self._now)
        self._tensors[key] += 1
        weakref.finalize(tensor, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._tensors[key] -= 1
        if not self._tensors[key]:
            self._now -= size


class _Attention(TorchFunctionMode):
    """Attends as kernels do that never hold a row of scores for each token."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - of torch
        if func is not F.scaled_dot_product_attention:
            return func(*args, **(kwargs or {}))
        named = {**dict(zip(("query", "key", "value"), args, strict=False)), **(kwargs or {})}
        query, value = named["query"], named["value"]
        return query.new_empty((*query.shape[:-1], value.shape[-1]))
