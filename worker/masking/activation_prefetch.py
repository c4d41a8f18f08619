"""Prefetch recorded activations to the device during the step before.

One thread brings blocks in the order they run, on a stream of its own; a block waits for its own
outputs alone. What cannot be read is computed.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from core.log import get_logger, log_errors
from worker.masking.quantised import Blocks, FlatStep, Quantised, RestoredOutputs
from worker.masking.recording import DamagedRecording, Recording, read_blocks

log = get_logger(__name__)

#: Reads the named blocks of one step's file, in that order.
Read = Callable[[Path, list[str]], Iterator[tuple[str, Quantised]]]
#: Names the blocks of a step to load, in order; told whether they are in host memory.
Choose = Callable[[bool], Sequence[str]]


@dataclass(frozen=True, slots=True, eq=False)
class InMemory(RestoredOutputs):
    """The outputs of one step that a device can read where they are."""

    blocks: Blocks

    def quantised(self, name: str) -> Quantised:
        return self.blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __contains__(self, name: object) -> bool:
        return name in self.blocks

    def whole(self) -> FlatStep | None:
        return self.blocks if isinstance(self.blocks, FlatStep) else None


@dataclass(frozen=True, slots=True, eq=False)
class ArrivedOutput:
    """One output on the device, once its copy is done."""

    output: Quantised
    copied: "torch.cuda.Event | None"

    def awaited(self) -> Quantised:
        """Give it to the stream at hand, which waits; the host does not."""
        if self.copied is not None:
            stream = torch.cuda.current_stream(self.output.values.device)
            stream.wait_event(self.copied)
            for tensor in (self.output.values, self.output.scales):
                tensor.record_stream(stream)
        return self.output


class Arriving(RestoredOutputs):
    """The outputs of one step on their way. To ask for one is to wait for it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.futures: dict[str, Future[ArrivedOutput | None]] = {name: Future() for name in names}

    def quantised(self, name: str) -> Quantised:
        arrived = self.futures[name].result()
        if arrived is None:
            raise KeyError(name)
        return arrived.awaited()

    def __contains__(self, name: object) -> bool:
        """Wait for one output; no if it is not loaded, or cannot be read."""
        future = self.futures.get(str(name))
        return future is not None and future.result() is not None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.futures if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class ArrivingStep(RestoredOutputs):
    """The outputs of one step on their way, all at once. To ask for one is to wait for them."""

    def __init__(self) -> None:
        self.arrived: Future[tuple[FlatStep, torch.cuda.Event] | None] = Future()

    @cached_property
    def _blocks(self) -> FlatStep | None:
        """Have the stream at hand wait; the host does not, once they are on their way."""
        arrived = self.arrived.result()
        if arrived is None:
            return None
        step, copied = arrived
        stream = torch.cuda.current_stream(step.numbers.device)
        stream.wait_event(copied)
        for tensor in (step.numbers, step.scales):
            tensor.record_stream(stream)
        return step

    def quantised(self, name: str) -> Quantised:
        if self._blocks is None:
            raise KeyError(name)
        return self._blocks[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._blocks or ())

    def __len__(self) -> int:
        return len(self._blocks or ())

    def __contains__(self, name: object) -> bool:
        return name in (self._blocks or ())

    def whole(self) -> FlatStep | None:
        return self._blocks


class ActivationLoader:
    """The one thread that brings outputs to a device."""

    def __init__(self, device: torch.device, read: Read = read_blocks) -> None:
        self.device = device
        self._read = read
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="activations-load")
        self._stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def begin(self, source: FlatStep | Path, names: Sequence[str]) -> RestoredOutputs:
        """Begin to load blocks of one step, behind what was asked for before."""
        if isinstance(source, Path):
            arriving = Arriving(names)
            self._thread.submit(self._bring, source, arriving)
            return arriving
        if self._stream is None:
            return InMemory(source.only(names))
        step = ArrivingStep()
        self._thread.submit(self._bring_whole, source, names, step)
        return step

    def close(self) -> None:
        """Load no more; what is waited for arrives."""
        self._thread.shutdown(wait=False)

    def _bring(self, source: Path, arriving: Arriving) -> None:
        """Load what can be; whatever is not there is computed."""
        with log_errors(log, "recording_not_loaded"):
            try:
                for name, output in self._read(source, list(arriving.futures)):
                    arriving.futures[name].set_result(self._copy(output))
            except DamagedRecording as error:
                log.warning("recording_damaged", reason=str(error))
                source.unlink(missing_ok=True)  # so that it is recorded anew
        for future in arriving.futures.values():
            if not future.done():
                future.set_result(None)

    def _bring_whole(self, source: FlatStep, names: Sequence[str], step: ArrivingStep) -> None:
        """Copy all of a step; what cannot be copied is computed."""
        with log_errors(log, "recording_not_loaded"), torch.cuda.stream(self._stream):
            source.pin()
            on_device = source.only(names).to(self.device)
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(self._stream)
            step.arrived.set_result((on_device, copied))
        if not step.arrived.done():
            step.arrived.set_result(None)

    def _copy(self, output: Quantised) -> ArrivedOutput:
        if self._stream is None:
            return ArrivedOutput(output, None)
        with torch.cuda.stream(self._stream):
            on_device = output.pinned().to(self.device)
            copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            copied.record(self._stream)
        return ArrivedOutput(on_device, copied)


class Feed:
    """The steps of one recording, each loaded while the one before is computed."""

    def __init__(
        self, recording: Recording, loader: ActivationLoader, choose: Choose, steps: range
    ) -> None:
        """Begin to load the first of `steps`; `choose` names the blocks of each."""
        self._recording = recording
        self._loader = loader
        self._choose = choose
        self._steps = steps
        self._ahead: tuple[int, RestoredOutputs] | None = None  #: a step on its way
        if steps:
            self._ahead = steps[0], self._begin(steps[0])

    @cached_property
    def signature(self) -> str:
        """Name the recording, and the blocks that are chosen of it."""
        chosen = repr([list(self._choose(True)), list(self._choose(False))])
        return f"{self._recording.fingerprint} {zlib.crc32(chosen.encode()):08x}"

    def at(self, position: int) -> RestoredOutputs:
        """Give the outputs of one step, and begin to load the next."""
        ahead, self._ahead = self._ahead, None
        outputs = ahead[1] if ahead and ahead[0] == position else self._begin(position)
        if position + 1 in self._steps:
            self._ahead = position + 1, self._begin(position + 1)
        return outputs

    def close(self) -> None:
        """Let go of the recording: who remembers the edit would hold it for longer."""
        self._recording, self._ahead = Recording(), None

    def _begin(self, position: int) -> RestoredOutputs:
        recording = self._recording
        if step := recording.steps.get(position):
            return self._loader.begin(step, self._choose(True))
        if path := recording.files.get(position):
            return self._loader.begin(path, self._choose(False))
        return InMemory(FlatStep.of({}))
