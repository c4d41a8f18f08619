"""What a worker computes on: its kind, and the precision and memory that it leaves open."""

import os
from pathlib import Path

from core.settings import AUTO, Settings

GIB = 2**30
#: Of a GPU's memory: what CUDA, its libraries and fragments take, and at least so much.
RESERVED_SHARE, RESERVED_GIB = 0.06, 1.0
#: What is left at least: a model too large for it is refused by its name.
LEAST_GIB = 0.1
#: Of a host's: the rest is for caches of adapters and recordings, other processes, and files.
HOST_SHARE = 0.6
#: Limits of the container that this process runs in, of either version of control groups.
LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def device_type(device: str) -> str:
    """Name the kind of device: workers of one kind share a profile."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device)
    return device


def worker_type(settings: Settings) -> str:
    """Name what a worker computes on: one with a second rank takes other times than one without."""
    kind = device_type(settings.device)
    return f"2 x {kind}" if settings.second_device else kind


def settled(settings: Settings) -> Settings:
    """Fill in what the device decides; what was given stands.

    Raises: ConfigurationError if there is no such device.
    """
    changes: dict[str, object] = {}
    if settings.dtype == AUTO:
        changes["dtype"] = default_dtype(settings.device)
    if settings.memory_gib is None:
        changes["memory_gib"] = default_memory_gib(settings)
    return settings.model_copy(update=changes) if changes else settings


def default_dtype(device: str) -> str:
    """Choose the precision that a device computes fastest in without being much worse."""
    if not device.startswith("cuda"):
        return "float32"
    import torch

    return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"


def default_memory_gib(settings: Settings) -> float:
    """Say how much of a device's memory models may take, with what they compute."""
    if not settings.device.startswith("cuda"):
        return round(HOST_SHARE * host_bytes() / GIB, 1)
    import torch

    total_gib = torch.cuda.get_device_properties(settings.device).total_memory / GIB
    reserved_gib = max(RESERVED_GIB, RESERVED_SHARE * total_gib) + settings.reserved_gib
    return max(LEAST_GIB, round(total_gib - reserved_gib, 1))


def has_own_memory(device: str) -> bool:
    """Tell whether what leaves the device for the host makes room on it."""
    return device.startswith("cuda")


def host_bytes() -> int:
    """Read how much memory this process may have: the machine's, or its container's."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *filter(None, map(_limit, LIMITS))])


def _limit(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # `max`: there is none
        return None
