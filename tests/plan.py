"""Read the plan in force, from a thread."""

import redis

from core.boards.plan import Plan
from core.codec import decode
from storage.redis.keys import PLAN


def read_plan(client: redis.Redis) -> Plan | None:
    """Read it as the scheduler last published it."""
    document = client.hget(PLAN, "document")
    return None if document is None else decode(document, Plan)
