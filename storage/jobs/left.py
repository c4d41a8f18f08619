"""Count what a cell still has to do before nobody misses its workers."""

from dataclasses import dataclass

from redis.asyncio import Redis

from storage.redis.connect import ask, converting_errors
from storage.redis.keys import LEASES, OUTBOX, PRIORITIES, QUEUES, waiting_key


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLeft:
    """What was accepted and has not ended."""

    queued: int  #: jobs that wait
    running: int  #: jobs that a worker has
    deliveries: int  #: webhooks to be sent

    @property
    def is_none(self) -> bool:
        return not (self.queued or self.running or self.deliveries)


async def count_work_left(redis: Redis) -> WorkLeft:
    """Count it, all at one moment: a job is in one place."""
    queues = [name.decode() for name in await ask(redis, "SMEMBERS", QUEUES)]
    async with redis.pipeline(transaction=True) as pipe:
        pipe.execute_command("ZCARD", LEASES)
        pipe.execute_command("ZCARD", OUTBOX)
        for queue in queues:
            for priority in PRIORITIES:
                pipe.execute_command("ZCARD", waiting_key(queue, priority))
        with converting_errors():
            running, deliveries, *queued = await pipe.execute()
    return WorkLeft(queued=sum(queued), running=running, deliveries=deliveries)
