"""Store and read where images of unfinished jobs stand. Runs in a CPU process; no torch."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from core.errors import ObjectMissing
from storage.objects.image_states import StateKey, folder_of
from worker.cpu.store_images import MAX_PARCELS, store_of_process

_threads = ThreadPoolExecutor(MAX_PARCELS, thread_name_prefix="states")


def put_states(states: Sequence[tuple[str, bytes]]) -> None:
    """Put states under their keys, at the same time, once: the next ones come soon.

    Raises: ObjectsUnavailable: the store cannot take them now; some may be there.
    """
    list(_threads.map(lambda state: _put(*state), states))


def read_states(tenant: str, job_id: str) -> Mapping[str, bytes]:
    """Read what claims have left of a job, by key: of each image the newest alone.

    Raises: ObjectsUnavailable: the store cannot serve now.
    """
    objects, found = store_of_process(), dict[str, bytes]()
    for key in newest(stored.key for stored in objects.list(folder_of(tenant, job_id))):
        with suppress(ObjectMissing):  # its worker has just written a newer one
            found[key] = objects.get(key)
    return found


def newest(keys: Iterable[str]) -> list[str]:
    """Choose of each image what the newest claim has left of it."""
    chosen: dict[int, StateKey] = {}
    for key in filter(None, map(StateKey.read, keys)):
        before = chosen.get(key.index)
        if before is None or before.fence < key.fence:
            chosen[key.index] = key
    return [str(chosen[index]) for index in sorted(chosen)]


def _put(key: str, data: bytes) -> None:
    store_of_process().put(key, data, "application/octet-stream")
