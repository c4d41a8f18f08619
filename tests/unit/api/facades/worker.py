"""A worker over in-memory stores, which makes whatever is asked for."""

import asyncio
import hashlib
from contextlib import asynccontextmanager

from core.job import JobStatus, StoredImage
from storage.jobs.leases import Outcome

IMAGE = b"\x89PNG..."
SHA256 = hashlib.sha256(IMAGE).hexdigest()


@asynccontextmanager
async def worker(stack, outcome=None):
    """Make whatever job is asked for inside the block."""

    async def work():
        done = set()
        while True:
            for job_id in [key for key in stack.store.records if key not in done]:
                done.add(job_id)
                make(stack, job_id, outcome)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(work())
    yield
    task.cancel()


def make(stack, job_id, outcome):
    claim = stack.leases.claim(job_id)
    if claim is None:  # another block's
        return
    deliver(stack, claim, outcome)


def deliver(stack, claim, outcome=None):
    """End a job that is claimed."""
    job_id, request = claim.job.id, claim.job.request
    images = []
    for index, seed in enumerate(request.seeds):
        key = f"{claim.job.tenant}/{job_id}/{claim.fence}/{index}.png"
        stack.objects.put(key, IMAGE, "image/png")
        images.append(StoredImage(key=key, width=64, height=64, seed=seed, sha256=SHA256))
    made = Outcome(status=JobStatus.SUCCEEDED, images=tuple(images))
    stack.leases.finish(job_id, claim.fence, outcome or made)


def only_request(stack):
    (record,) = stack.store.records.values()
    return record.job.request
