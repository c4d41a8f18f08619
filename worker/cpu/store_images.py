"""Encode finished pixels and store them. Runs in a CPU process; no torch."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from PIL import Image
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from core.errors import EngineError, ObjectsUnavailable
from core.job import StoredImage
from core.request.output import LOSSLESS, Output, OutputFormat
from core.settings import Settings
from storage.objects.store import ObjectStore, open_objects
from worker.diffusion.runner import Pixels
from worker.futures import tried

#: How long a store that does not answer is asked again before this process is free for others.
PATIENCE_S = 3.0
#: zlib's level: within a few percent of the best size at a third of its time.
COMPRESSION = 3

#: Jobs of one call; their puts wait for the store at the same time.
MAX_PARCELS = 16

_objects: ObjectStore | None = None
_threads = ThreadPoolExecutor(MAX_PARCELS, thread_name_prefix="put")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parcel:
    """The images of one job on their way to a CPU process."""

    prefix: str  #: of their keys, used by no other claim
    images: Sequence[Pixels]
    seeds: Sequence[int]  #: of each image
    output: Output = LOSSLESS  #: what they are written as


def open_store(settings: Settings) -> None:
    """Open the object store once per process."""
    global _objects
    _objects = open_objects(settings)


def store_parcels(parcels: Sequence[Parcel]) -> list[tuple[StoredImage, ...] | Exception]:
    """Encode and put the images of some jobs; one that fails does not touch the others."""
    if len(parcels) == 1:
        return [tried(partial(store_images, parcels[0]))]
    return list(_threads.map(lambda parcel: tried(partial(store_images, parcel)), parcels))


def store_images(parcel: Parcel) -> tuple[StoredImage, ...]:
    """Encode and put the images of one job.

    Raises:
        ObjectsUnavailable: the store did not take them in time.
    """
    pairs, output = zip(parcel.images, parcel.seeds, strict=True), parcel.output
    return tuple(
        _store(f"{parcel.prefix}/{index}.{output.ending}", pixels, seed, output)
        for index, (pixels, seed) in enumerate(pairs)
    )


def delete_images(keys: Sequence[str]) -> None:
    """Take back images that nobody will ever ask for."""
    store_of_process().delete(keys)


def put_latents(key: str, data: bytes) -> None:
    """Put what a job leaves behind, once: nobody waits for it, and the next job leaves as much.

    Raises:
        ObjectsUnavailable: the store cannot take it now.
    """
    store_of_process().put(key, data, "application/octet-stream")


def _store(key: str, pixels: Pixels, seed: int, output: Output) -> StoredImage:
    data = encode_image(pixels, output)
    _put(key, data, output.format.content_type)
    height, width = pixels.shape[:2]
    digest = hashlib.sha256(data).hexdigest()
    return StoredImage(
        key=key, width=width, height=height, seed=seed, sha256=digest, size_bytes=len(data)
    )


def encode_image(pixels: Pixels, output: Output) -> bytes:
    """Write [H, W, 3] as it is asked for; equal pixels give equal bytes."""
    buffer = BytesIO()
    lossy = {"quality": output.quality}
    if output.format is OutputFormat.AVIF:
        lossy["max_threads"] = 1  # other calls have the other cores
    how = lossy if output.format.is_lossy else {"compress_level": COMPRESSION}
    Image.fromarray(pixels).save(buffer, output.format.name, **how)
    return buffer.getvalue()


@retry(
    retry=retry_if_exception_type(ObjectsUnavailable),
    wait=wait_random_exponential(0.1, max=2.0),
    stop=stop_after_delay(PATIENCE_S),
    reraise=True,
)
def _put(key: str, data: bytes, content_type: str) -> None:
    store_of_process().put(key, data, content_type)


def store_of_process() -> ObjectStore:
    """Give the object store that `open_store` has opened."""
    if _objects is None:
        raise EngineError("this process has no object store")
    return _objects
