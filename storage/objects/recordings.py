"""Evict recorded activations from the object store: least recently used beyond a budget."""

from collections import defaultdict

from storage.objects.store import ObjectStore, Stored

#: Where all of them lie, beside the images: a folder a recording, an object a step.
PREFIX = "activations"
MANIFEST = "steps.json"  #: lists the steps; written last, and again at each use


def step_key(digest: str, position: int) -> str:
    """Name one step of a recording."""
    return f"{PREFIX}/{digest}/{position}.safetensors"


def manifest_key(digest: str) -> str:
    """Name the list of the steps of a recording."""
    return f"{PREFIX}/{digest}/{MANIFEST}"


def trim(objects: ObjectStore, budget_bytes: int) -> int:
    """Delete the recordings that were not used for longest until the others fit; count them.

    Raises: ObjectsUnavailable: the store cannot serve now; some may be gone.
    """
    found: dict[str, list[Stored]] = defaultdict(list)
    for stored in objects.list(PREFIX):
        found[stored.key.split("/")[1]].append(stored)
    over = sum(stored.num_bytes for parts in found.values() for stored in parts) - budget_bytes
    doomed = []
    for digest, parts in sorted(
        found.items(), key=lambda item: max(p.modified_at for p in item[1])
    ):
        if over <= 0:
            break
        doomed.append(digest)
        over -= sum(stored.num_bytes for stored in parts)
    # The lists go first: what still reads the steps of one finds it gone, and computes.
    objects.delete([manifest_key(digest) for digest in doomed])
    objects.delete([stored.key for digest in doomed for stored in found[digest]])
    return len(doomed)
