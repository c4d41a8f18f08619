"""Per-process ControlNet server for Celery tasks, with loading of ControlNets."""

import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import msgspec

from catalog.description.tensors import read_tensors
from catalog.weights import read_controlnet
from core.errors import BadWeights, EngineError, ModelRefused
from core.settings import Settings
from core.uploads.controlnet import is_kept
from storage.redis.connect import connect_sync
from worker.control.offers import Offer, is_stale
from worker.control.server.compute_watch import EXPECTED_S
from worker.control.server.kept import fetched
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.server.network import Network
from worker.control.server.server import ControlServer
from worker.cpu import store_images
from worker.diffusion.device import parse_dtype, use_host
from worker.diffusion.loading.pipelines import import_controlnets
from worker.trials.device_defaults import settled

#: Exit status of a process whose device computes no more: start me again.
BROKEN_DEVICE = 70

_server: ControlServer | None = None


def start(settings: Settings) -> None:
    """Make this process ready to take sessions."""
    global _server
    use_host(settings.torch_threads)
    store_images.open_store(settings)
    residents: ModelCache[Network] = ModelCache(
        lambda name: load(settings, name, partial(residents.expect, name)),
        int(settings.control_gib * 2**30),
        patience_s=settings.control_patience_s,
    )
    _server = ControlServer(
        residents,
        max_rows=settings.max_rows,
        is_stale=partial(is_stale, connect_sync(settings.redis_url)),
        die=partial(os._exit, BROKEN_DEVICE),
        expected_s=None if settings.device == "cpu" else EXPECTED_S,
    )
    _server.start()
    import_controlnets()
    loading = partial(residents.preload, _sizes(settings.controlnets_dir))
    threading.Thread(target=loading, name="preload", daemon=True).start()


def serve(offer: object) -> str:
    """See a session from its begin to its end; say why it is over.

    Raises: EngineError if this process has no ControlNets, or not this one.
    """
    if _server is None:
        raise EngineError("this worker has no ControlNets: it must not serve their queue")
    return _server.serve(msgspec.convert(offer, Offer))


def stop() -> None:
    """End what is left of all sessions."""
    if _server is not None:
        _server.close()


def _sizes(folder: Path) -> dict[str, int]:
    """Say how many bytes of weights each ControlNet of a folder has."""
    folders = [config.parent for config in sorted(folder.glob("*/config.json"))]
    return {
        each.name: sum(file.stat().st_size for file in each.glob("*.safetensors"))
        for each in folders
    }


def load(
    settings: Settings, name: str, expect: Callable[[int], object] = lambda num_bytes: None
) -> Network:
    """Load a ControlNet from its folder, or a kept one from the object store.

    `expect` is told how many bytes it takes before it takes any.

    Raises:
        BadWeights: naming the file and the reason.
        ObjectsUnavailable: the store did not give it in time.
    """
    if Path(name).name != name:
        raise BadWeights(f"{name!r} is no name of a ControlNet")
    folder = settings.controlnets_dir / name
    with fetched(name) if is_kept(name) else nullcontext(folder) as found:
        dtype = settled(settings).dtype
        expect(_bytes_of(found, dtype))
        return load_network(found, device=settings.device, dtype=dtype)


def _bytes_of(folder: Path, dtype: str) -> int:
    """Count what the weights of a folder take; of a broken one loading says what is wrong."""
    try:
        numbers = read_tensors(read_controlnet(folder).files).parameters
    except ModelRefused:
        return 0
    return numbers * parse_dtype(dtype).itemsize
