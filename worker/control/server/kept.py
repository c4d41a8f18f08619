"""Fetch an uploaded ControlNet from the object store into a temporary diffusers folder."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from catalog.controlnet.manifest import Manifest
from core.codec import decode
from core.errors import BadWeights, ObjectMissing
from core.uploads.controlnet import manifest_key, weights_key
from worker.cpu.inputs import read_object

#: One at a time: each is in memory whole while it is read.
_fetching = threading.Lock()
#: Those on the disk wait there for room in memory.
_laid_out = threading.BoundedSemaphore(4)


@contextmanager
def fetched(controlnet_id: str) -> Iterator[Path]:
    """Lay a kept ControlNet out as diffusers reads it, for a while.

    Raises:
        BadWeights: it is gone, or is not the file that was kept.
        ObjectsUnavailable: the store did not give it in time.
    """
    with _laid_out, TemporaryDirectory(prefix="atelier-controlnet-") as name:
        folder = Path(name) / controlnet_id
        folder.mkdir()
        with _fetching:
            _lay_out(controlnet_id, folder)
        yield folder


def _lay_out(controlnet_id: str, folder: Path) -> None:
    try:
        manifest = decode(read_object(manifest_key(controlnet_id)), Manifest)
        weights = read_object(weights_key(controlnet_id))
    except ObjectMissing as error:
        raise BadWeights(f"{controlnet_id}: gone from the store: add it again") from error
    if hashlib.sha256(weights).hexdigest() != manifest.sha256:
        raise BadWeights(f"{controlnet_id}: damaged in the store: add it again")
    (folder / "config.json").write_bytes(msgspec.json.encode(manifest.config))
    (folder / "diffusion_pytorch_model.safetensors").write_bytes(weights)
