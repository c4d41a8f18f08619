"""Whether records, indexes and lists agree: for tests, and for an operator in doubt."""

from collections import Counter
from collections.abc import Iterable

from redis import Redis

from core.job import JobStatus
from storage.connect import ask_sync
from storage.keys import (
    DEADLINES,
    FINISHED,
    LEASES,
    PRIORITIES,
    QUEUES,
    buried_key,
    held_key,
    list_of,
)
from storage.record import Fields


def check_integrity(client: Redis, *, is_quiet: bool = False) -> list[str]:
    """Name everything that contradicts itself; an empty list is a healthy store.

    The server must not be changed meanwhile. `is_quiet`: no message is on its way to a worker,
    so that every queued job must have one on its list.
    """
    indexes = _read_indexes(client)
    problems: list[str] = []
    seen: set[str] = set()
    for key in client.scan_iter(match="job:*", count=1000):
        job_id = key.decode().removeprefix("job:")
        seen.add(job_id)
        fields = ask_sync(client, "HGETALL", key)
        problems += [f"{job_id}: {what}" for what in _check(job_id, fields, indexes)]
        if is_quiet and fields[b"status"] == b"queued":
            problems += _check_message(client, job_id, fields)
    for name, ids in indexes.items():
        problems += [f"{name}: {job_id} has no record" for job_id in sorted(ids - seen)]
    return problems


def read_finishes(client: Redis, ids: Iterable[str]) -> Counter[int]:
    """Count jobs by how often they ended: `{1: len(ids)}` means exactly once, all of them."""
    rows = (ask_sync(client, "HGET", f"job:{job_id}", "finishes") for job_id in ids)
    return Counter(int(row or 0) for row in rows)


def _read_indexes(client: Redis) -> dict[str, set[str]]:
    queues = [name.decode() for name in ask_sync(client, "SMEMBERS", QUEUES)]
    names = [f"waiting:{list_of(q, p)}" for q in queues for p in PRIORITIES]
    buried = [key.decode() for key in client.scan_iter(match=buried_key("*"), count=1000)]
    found = {
        name: ask_sync(client, "ZRANGE", name, 0, -1)
        for name in (*names, *buried, LEASES, DEADLINES, FINISHED)
    }
    for key in client.scan_iter(match=held_key("*"), count=1000):
        found[key.decode()] = ask_sync(client, "SMEMBERS", key)
    return {name: {member.decode() for member in members} for name, members in found.items()}


def _check(job_id: str, fields: Fields, indexes: dict[str, set[str]]) -> list[str]:
    status = JobStatus(fields[b"status"].decode())
    held = {name for name, ids in indexes.items() if job_id in ids}
    wanted = _indexes_of(status, fields)
    problems = []
    if held != wanted:
        problems.append(f"{status} is in {sorted(held)}, not in {sorted(wanted)}")
    if int(fields[b"finishes"]) != int(status.is_terminal):
        problems.append(f"{status} has ended {int(fields[b'finishes'])} times")
    if int(fields[b"attempts"]) > int(fields[b"fence"]):
        problems.append("more attempts than fences")
    if status.is_terminal == (b"message" in fields):
        problems.append(f"{status} and its message do not fit")
    return problems


def _indexes_of(status: JobStatus, fields: Fields) -> set[str]:
    if status.is_terminal:
        own = {buried_key(fields[b"tenant"].decode())} if b"buried" in fields else set()
        return {FINISHED} | own
    names = {DEADLINES} if b"deadline_at" in fields else set()
    if status is JobStatus.RUNNING:
        return names | {LEASES, held_key(fields.get(b"worker", b"").decode())}
    return names | {f"waiting:{list_of(fields[b'queue'].decode(), int(fields[b'priority']))}"}


def _check_message(client: Redis, job_id: str, fields: Fields) -> list[str]:
    tag = f"{job_id}:{int(fields[b'publication'])}".encode()
    message = fields[b"message"].replace(b"@@TAG@@", tag)
    name = list_of(fields[b"queue"].decode(), int(fields[b"priority"]))
    copies = ask_sync(client, "LRANGE", name, 0, -1).count(message)
    return [] if copies == 1 else [f"{job_id}: queued with {copies} messages"]
