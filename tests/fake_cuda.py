"""A CUDA device that notes what it is told, to be put in the place of `torch.cuda`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch

REAL = torch.cuda


@dataclass(eq=False)
class FakeEvent:
    told: list[str]
    stream: "FakeStream | None" = None

    def record(self, stream: "FakeStream") -> None:
        self.stream = stream
        self.told.append(f"event in {stream.name}")

    def synchronize(self) -> None:
        self.told.append("host waits for event")


@dataclass(eq=False)
class FakeStream:
    name: str
    told: list[str]

    def synchronize(self) -> None:
        self.told.append(f"host waits for {self.name}")

    def wait_event(self, event: FakeEvent) -> None:
        assert event.stream is not None, "nobody recorded it: to wait for it is to wait for nothing"
        self.told.append(f"{self.name} waits for event")


@dataclass(eq=False)
class FakeGraph:
    told: list[str]

    def replay(self) -> None:
        self.told.append("replayed")


@dataclass(eq=False)
class FakeCuda:
    """What production code calls of `torch.cuda`; the rest, which torch itself calls, is real."""

    told: list[str] = field(default_factory=list)
    current: list[FakeStream] = field(default_factory=list)
    made: int = 0  #: streams
    pools: int = 0  #: of memory of graphs
    at: object = None  #: the device that is current

    def __getattr__(self, name: str) -> object:
        return getattr(REAL, name)

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def get_device_properties(self, device: object) -> SimpleNamespace:
        return SimpleNamespace(total_memory=24 * 2**30)

    def Stream(self, device: object) -> FakeStream:
        assert device is not None
        self.made += 1
        return FakeStream(f"stream {self.made}", self.told)

    def Event(self) -> FakeEvent:
        return FakeEvent(self.told)

    def current_stream(self, device: object = None) -> FakeStream:
        return self.current[-1] if self.current else FakeStream("main stream", self.told)

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        depth = len(self.current)
        self.current.append(stream)
        try:
            yield
        finally:
            del self.current[depth:]

    @contextmanager
    def device(self, device: object) -> Iterator[None]:
        before, self.at = self.at, device
        yield
        self.at = before

    def synchronize(self, device: object = None) -> None:
        self.told.append("host waits for device")

    def empty_cache(self) -> None:
        self.told.append("cache emptied")

    def graph_pool_handle(self) -> str:
        self.pools += 1
        return f"pool {self.pools}"

    def CUDAGraph(self) -> "FakeGraph":
        return FakeGraph(self.told)

    @contextmanager
    def graph(
        self, graph: "FakeGraph", pool: str, stream: FakeStream, capture_error_mode: str
    ) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        self.told.append(f"capture in {stream.name}, {pool}")
        self.current.append(stream)  # and is left there, as torch does if capturing fails
        yield
        self.current.pop()

    def is_current_stream_capturing(self) -> bool:
        return bool(self.told) and self.told[-1].startswith("capture in")

    def get_device_name(self, device: object = None) -> str:
        return "Fake GPU"


@dataclass(eq=False)
class FakeTensor:
    """A tensor of the host, and after `to` one of the device; stands for a `Quantised` too."""

    told: list[str]
    num_bytes: int = 8
    is_there: bool = False  #: on the device
    pinned_before: bool = False

    def is_pinned(self) -> bool:
        return self.pinned_before

    def pin_memory(self) -> "FakeTensor":
        self.told.append("pinned")
        return FakeTensor(self.told, pinned_before=True)

    pinned = pin_memory

    def to(self, device: object, non_blocking: bool = True) -> "FakeTensor":
        assert non_blocking
        self.told.append(f"copied to {device}")
        return FakeTensor(self.told, is_there=True)

    def record_stream(self, stream: FakeStream) -> None:
        self.told.append(f"kept for {stream.name}")

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.is_there else "cpu")

    @property
    def values(self) -> "FakeTensor":
        return self

    scales = values

    def restored(self) -> "FakeTensor":
        self.told.append("read")
        return self
