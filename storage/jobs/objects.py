"""Objects of a job, named by its record: to delete before it is forgotten."""

from core.codec import decode
from core.job import JobRequest, StoredImage
from core.latents import every_latents_key
from core.traits import Use, may
from storage.archive.records import Fields


def objects_of(job_id: str, fields: Fields) -> tuple[str, ...]:
    """Name the objects of a job whose record has been read."""
    fences, images = fields.get(b"fences", b""), fields.get(b"images", b"")
    return keys_of(job_id.encode(), fields[b"tenant"], fences, fields[b"request"], images)


def keys_of(
    job_id: bytes, tenant: bytes, fences: bytes, request: bytes, images: bytes
) -> tuple[str, ...]:
    """Name the objects of one job: its inputs, what it published, what lost attempts left.

    And its latents: whoever should have deleted them earlier may not know of them.
    """
    published = decode(images, tuple[StoredImage, ...]) if images else ()
    keys = {image.key for image in published}
    tried = fences.decode().split(",") if fences else []
    folder, asked = f"{tenant.decode()}/{job_id.decode()}/", decode(request, JobRequest)
    if len(tried) > (1 if published else 0):
        ending = asked.output.ending
        keys |= {f"{folder}{fence}/{i}.{ending}" for fence in tried for i in range(asked.n)}
    if may(Use.LEND, asked) and tried:
        keys |= every_latents_key(tenant.decode(), job_id.decode())
    keys.update(
        key for key in asked.inputs.values() if key.startswith(folder)
    )  # others are their owner's
    return tuple(sorted(keys))
