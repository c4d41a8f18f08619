"""What waits at the heads of queues? Looked at by workers, and left where it is."""

from collections.abc import Collection

import redis

from core.job import JobRequest
from storage.codec import decode
from storage.connect import ask_sync
from storage.keys import PRIORITIES, job_key, waiting_key


def peek(client: redis.Redis, queues: Collection[str], depth: int) -> list[JobRequest]:
    """Read what the next jobs of each queue and priority ask for, the next ones first.

    Raises:
        StoreUnavailable: the store cannot say now.
    """
    ids: list[bytes] = []
    for queue in queues:
        for priority in PRIORITIES:
            ids += ask_sync(client, "ZRANGE", waiting_key(queue, priority), 0, depth - 1)
    documents = [ask_sync(client, "HGET", job_key(each.decode()), "request") for each in ids]
    return [decode(document, JobRequest) for document in documents if document]
