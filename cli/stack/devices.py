"""Divide the devices of a machine among its workers: a GPU each, or memory and cores of a host."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigurationError
from core.settings import Settings
from worker.trials.device_defaults import default_memory_gib

VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Where the driver lists the GPUs of a machine.
GPUS = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What the workers of one machine compute on, by its settings."""

    settings: Settings
    workers: int
    has_controlnets: bool  #: computed by a worker of their own

    def of_worker(self, number: int) -> dict[str, str]:
        """Say to the worker of this number, from 1, what it has.

        Raises:
            ConfigurationError: there are fewer GPUs than that takes, or all would share one.
        """
        if self.settings.device == "cpu":
            return self._a_share_of_the_host()
        if self.settings.device != "cuda":
            return self._named_gpu() if self.settings.device.startswith("cuda") else {}
        gpus, first = self._gpus(), (number - 1) * self._each
        mine = gpus[first : first + self._each]
        env = {VISIBLE: ",".join(mine)} if self.workers > 1 else {}
        if self.has_controlnets and self._of_controlnets(gpus) in mine:
            env |= self._reserve
        return env

    def of_controlnets(self) -> dict[str, str]:
        """Say to the worker with ControlNets what it has: a GPU that is left, else the last."""
        if self.settings.device != "cuda":
            return {}
        return {VISIBLE: self._of_controlnets(self._gpus())}

    def _named_gpu(self) -> dict[str, str]:
        """Say what the one worker of a GPU has that a number names: ControlNets are there too."""
        if self.workers > 1:
            raise ConfigurationError(
                f"ATELIER_DEVICE: all {self.workers} workers would compute on "
                f"{self.settings.device}: leave the number out, `cuda` gives each a GPU of its own"
            )
        return self._reserve if self.has_controlnets else {}

    @property
    def _reserve(self) -> dict[str, str]:
        """Leave to ControlNets what they take of a GPU."""
        return {"ATELIER_RESERVED_GIB": str(self.settings.control_gib)}

    @property
    def _each(self) -> int:
        """Count the GPUs that one worker computes on."""
        return 2 if self.settings.second_device.startswith("cuda") else 1

    def _gpus(self) -> Sequence[str]:
        """Name those of the workers, and what is left."""
        found, needed = visible_gpus(), self.workers * self._each
        if found and len(found) < needed:
            raise ConfigurationError(
                f"--workers {self.workers}: they take {needed} GPUs, {self._each} each, and this "
                f"machine has {len(found)} ({VISIBLE}, or {GPUS})"
            )
        return found or [str(number) for number in range(needed)]

    def _of_controlnets(self, gpus: Sequence[str]) -> str:
        taken = self.workers * self._each
        return gpus[taken] if len(gpus) > taken else gpus[taken - self._each]

    def _a_share_of_the_host(self) -> dict[str, str]:
        """Divide what was not said; a core is left for everything else."""
        env: dict[str, str] = {}
        if self.settings.memory_gib is None:
            memory_gib = default_memory_gib(self.settings) / self.workers
            env["ATELIER_MEMORY_GIB"] = f"{memory_gib:.2f}"
        if "torch_threads" not in self.settings.model_fields_set:
            cores = len(os.sched_getaffinity(0))
            env["ATELIER_TORCH_THREADS"] = str(max(1, (cores - 1) // self.workers))
        return env


def visible_gpus() -> Sequence[str]:
    """Name the GPUs that we may use; none: there is none, or nobody says."""
    if (given := os.environ.get(VISIBLE)) is not None:
        return [name.strip() for name in given.split(",") if name.strip()]
    return [str(number) for number, _ in enumerate(GPUS.glob("*"))]
