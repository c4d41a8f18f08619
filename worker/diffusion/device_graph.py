"""Capture device work as a CUDA graph: thousands of launches become one."""

from collections.abc import Callable
from functools import cache
from weakref import WeakSet

import torch
from torch import Tensor

#: Runs captured work again, and where it leaves its answer.
Captured = tuple[Callable[[], None], Tensor]
#: Captures the work of a call, which is not done then.
Capture = Callable[[Callable[[], Tensor]], Captured]


class DeviceCapture:
    """Captures work of one device, into memory that its graphs share: they run one at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graphs = WeakSet[torch.cuda.CUDAGraph]()  #: that are alive
        self._pool = torch.cuda.graph_pool_handle()  #: of the memory that these share

    def __call__(self, call: Callable[[], Tensor]) -> Captured:
        """Capture what a call does, which must not wait for the device; other threads go on.

        Raises: RuntimeError if it cannot be captured.
        """
        if not self._graphs:  # a pool goes with its last graph, and never comes back
            self._pool = torch.cuda.graph_pool_handle()
        graph, main = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self._device)
        aside = torch.cuda.graph(
            graph, self._pool, _stream(self._device), capture_error_mode="thread_local"
        )
        with torch.cuda.stream(main), aside:  # back on it also if capturing fails
            answer = call()
        self._graphs.add(graph)
        return graph.replay, answer


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """Give the one stream that captures: matrix products keep scratch memory for each for good."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
