"""Load LoRAs from the object store into memory, through another process.

That process writes the file into memory of ours that has no name: whichever of the two dies,
nothing stays behind. It imports no torch.
"""

import hashlib
import os
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

from catalog.lora.names import Shapes
from catalog.lora.parse import LayerChange, parse
from core.errors import EngineError, ObjectMissing, ProcessLost, WeightsRefused
from core.settings import Settings
from core.uploads.lora import AppliedLora
from worker.cpu import store_images
from worker.cpu.inputs import read_object
from worker.cpu.processes import Processes
from worker.futures import resolve
from worker.jobs.patience import persist

if TYPE_CHECKING:
    from torch import Tensor


#: How long a store that does not give a file is asked again.
PATIENCE_S = 600.0


class LoraLoader:
    """Loads LoRAs, some at a time."""

    def __init__(self, settings: Settings) -> None:
        """Prepare the processes; they start with the first LoRA."""
        self._processes = Processes(settings.lora_processes, store_images.open_store, settings)

    def load(self, use: AppliedLora, shapes: Shapes) -> "Future[tuple[Tensor, list[LayerChange]]]":
        """Bring a file into memory and say what it holds. Shapes: bytes [size of the file].

        Raises: OSError if no file descriptor is left; the future gets EngineError or
        ObjectsUnavailable.
        """
        memory = os.memfd_create("lora")
        os.ftruncate(memory, max(use.size_bytes, 1))
        answer: "Future[tuple[Tensor, list[LayerChange]]]" = Future()
        ask = partial(self._processes.run, read_into, _path(memory), use, shapes)
        call = persist(ask(), ask, partial(_end, time.monotonic() + PATIENCE_S))
        call.add_done_callback(partial(_receive, memory, use.size_bytes, answer))
        return answer

    def close(self) -> None:
        """End the processes."""
        self._processes.close()


def read_into(path: str, use: AppliedLora, shapes: Shapes) -> list[LayerChange]:
    """Fetch, check and parse a file, in a process of its own.

    Raises:
        EngineError: it is gone, is not the file that was kept, or does not fit the model.
        ObjectsUnavailable: the store did not give it in time.
    """
    with open(path, "r+b") as memory:  # now: its number may be another file's after a long fetch
        data, pairs = _fetch(use, shapes)
        memory.write(data)
    return pairs


def _fetch(use: AppliedLora, shapes: Shapes) -> tuple[bytes, list[LayerChange]]:
    try:
        data = read_object(use.key)
        if hashlib.sha256(data).hexdigest() != use.sha256:
            raise EngineError(f"LoRA {use.id} is damaged in the store: add it again")
        return data, parse(data, shapes)
    except ObjectMissing as error:
        raise EngineError(f"LoRA {use.id} is gone from the store: add it again") from error
    except WeightsRefused as error:
        raise EngineError(f"LoRA {use.id} does not fit the model: {error}") from error


def _end(until: float, error: Exception) -> Exception | None:
    """Say when it is no use to ask again: it was long, or the file kills whoever parses it."""
    return error if isinstance(error, ProcessLost) or time.monotonic() >= until else None


def _receive(
    memory: int,
    size: int,
    answer: "Future[tuple[Tensor, list[LayerChange]]]",
    call: "Future[list[LayerChange]]",
) -> None:
    resolve(answer, lambda: (_map(memory, size), call.result()))


def _map(memory: int, size: int) -> "Tensor":
    """Look at memory as bytes, and let go of its descriptor: it stays for as long as they do."""
    import torch  # here: the processes, which import this module, do without it

    try:
        return torch.from_file(_path(memory), shared=True, size=size, dtype=torch.uint8)
    finally:
        os.close(memory)


def _path(memory: int) -> str:
    """Name memory of this process for any process of its user."""
    return f"/proc/{os.getpid()}/fd/{memory}"
