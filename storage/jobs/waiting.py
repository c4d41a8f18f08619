"""Peek at the heads of queues without consuming them."""

from collections.abc import Collection
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


def peek(client: redis.Redis, queues: Collection[str], depth: int) -> list[Waiting]:
    """Read the next jobs of each queue and priority, the next ones first.

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
        for _, job_id in found:
            pipe.hget(job_key(job_id), "request")
        documents = pipe.execute()
    return [
        Waiting(job_id=job_id, queue=queue, request=decode(document, JobRequest))
        for (queue, job_id), document in zip(found, documents, strict=True)
        if document
    ]
