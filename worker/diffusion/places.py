"""Pick some rows of a tensor: as a view where they are evenly spaced, else as a copy."""

from collections.abc import Sequence

import torch
from torch import Tensor

from worker.diffusion.device import to_device


class Places:
    """Rows of tensors, by their numbers. There is at least one."""

    def __init__(self, numbers: Sequence[int], device: torch.device) -> None:
        """Keep the numbers on the device, unless a slice says as much."""
        first, last, count = numbers[0], numbers[-1], len(numbers)
        step = numbers[1] - first if count > 1 else 1
        is_even = step > 0 and list(numbers) == list(range(first, last + 1, step))
        self._slice = slice(first, last + 1, step) if is_even else None
        self._numbers = to_device(torch.tensor(numbers), device)

    def of(self, tensor: Tensor) -> Tensor:
        """Give these rows, perhaps as a view."""
        if self._slice is not None:
            return tensor[self._slice]
        return tensor.index_select(0, self._numbers)

    def put(self, tensor: Tensor, rows: Tensor) -> None:
        """Overwrite these rows."""
        if self._slice is not None:
            tensor[self._slice].copy_(rows)
        else:
            tensor.index_copy_(0, self._numbers, rows)
