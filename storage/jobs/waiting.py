"""Peek at the heads of queues without consuming them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import redis

from core.codec import decode
from core.job import JobRequest
from storage.redis.connect import converting_errors
from storage.redis.keys import PRIORITIES, job_key, turns_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A job on a queue."""

    job_id: str
    queue: str
    request: JobRequest


def peek(
    client: redis.Redis, queues: Collection[str], depth: int, known: Sequence[Waiting] = ()
) -> list[Waiting]:
    """Read the next jobs of each queue and priority, the next ones first.

    `known`: what was read before, of which only the place is asked.

    Raises:
        StoreUnavailable: the store cannot say now.
    """
    lists = [(queue, priority) for queue in queues for priority in PRIORITIES]
    with converting_errors(), client.pipeline(transaction=False) as pipe:
        for queue, priority in lists:
            pipe.zrange(turns_key(queue, priority), 0, depth - 1)
        rows = pipe.execute()
        found = [
            (queue, job_id.decode())
            for (queue, _), ids in zip(lists, rows, strict=True)
            for job_id in ids
        ]
        seen = {(each.queue, each.job_id): each for each in known}
        new = [place for place in found if place not in seen]
        for _, job_id in new:
            pipe.hget(job_key(job_id), "request")
        documents = pipe.execute()
    seen |= {
        (queue, job_id): Waiting(job_id=job_id, queue=queue, request=decode(document, JobRequest))
        for (queue, job_id), document in zip(new, documents, strict=True)
        if document
    }
    return [seen[place] for place in found if place in seen]
