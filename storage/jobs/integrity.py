"""Consistency check of records, indexes and lists, for tests and benches."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from redis import Redis

from core.job import JobStatus
from storage.archive.records import Fields
from storage.redis.connect import ask_sync
from storage.redis.keys import (
    APPLICANTS,
    DEAD,
    DEADLINES,
    FINISHED,
    LEASES,
    OUTBOX,
    QUEUES,
    account_key,
    applications_key,
    buried_key,
    dead_key,
    delivery_key,
    held_key,
    list_of,
    open_key,
    pending_key,
    tenant_key,
    upload_key,
    uploads_key,
)


def check_integrity(
    client: Redis, *, is_quiet: bool = False, archived: Mapping[str, int] = MappingProxyType({})
) -> list[str]:
    """Name everything that contradicts itself; an empty list is a healthy store.

    The server must not be changed meanwhile. `is_quiet`: no message is on its way to a worker,
    so that every queued job must have one on its list. `archived`: bytes that each tenant keeps of
    jobs that left the store.
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
    return problems + _check_others(client) + _check_accounts(client, archived)


#: Names of the indexes of jobs.
_ZSETS = ("waiting:*", "turns:*", buried_key("*"), tenant_key("*"))
_SETS = (held_key("*"), open_key("*"))


def _read_indexes(client: Redis) -> dict[str, set[str]]:
    zsets = [name for pattern in _ZSETS for name in _named(client, pattern)]
    found = {
        name: ask_sync(client, "ZRANGE", name, 0, -1)
        for name in (*zsets, LEASES, DEADLINES, FINISHED)
    }
    for name in (name for pattern in _SETS for name in _named(client, pattern)):
        found[name] = ask_sync(client, "SMEMBERS", name)
    return {name: {member.decode() for member in members} for name, members in found.items()}


def _named(client: Redis, pattern: str) -> list[str]:
    return [key.decode() for key in client.scan_iter(match=pattern, count=1000)]


def _check_others(client: Redis) -> list[str]:
    """Find records that are no jobs, and queues of jobs, that their indexes do not name."""
    queues = {name.decode() for name in ask_sync(client, "SMEMBERS", QUEUES)}
    tenants = {name.decode() for name in ask_sync(client, "SMEMBERS", APPLICANTS)}
    waiting = {name.partition(":")[2].partition("\x06")[0] for name in _named(client, "waiting:*")}
    missing = sorted(waiting - queues) + sorted(
        key for key in _named(client, applications_key("*")) if key.partition(":")[2] not in tenants
    )
    indexes = (OUTBOX, DEAD, *_named(client, dead_key("*")))
    known = {name for index in indexes for name in ask_sync(client, "ZRANGE", index, 0, -1)}
    deliveries = _named(client, delivery_key("*"))
    missing += [key for key in deliveries if key.partition(":")[2].encode() not in known]
    for key in _named(client, upload_key("*")):
        tenant, kind = ask_sync(client, "HMGET", key, "tenant", "kind")
        index = uploads_key(kind.decode(), tenant.decode())
        if ask_sync(client, "ZSCORE", index, key.partition(":")[2]) is None:
            missing.append(key)
    return [f"{name} is in no index" for name in missing] + _check_pending(client)


def _check_pending(client: Redis) -> list[str]:
    """Compare the deliveries to be made with the indexes of their tenants.

    The version before posts without them and settles without them: `rebuild` enters what is
    missing, `trim` takes out what is over. Those before it name no tenant.
    """
    waiting = {name.decode() for name in ask_sync(client, "ZRANGE", OUTBOX, 0, -1)}
    tenants = {name: ask_sync(client, "HGET", delivery_key(name), "tenant") for name in waiting}
    wanted = {(pending_key(t.decode()), name) for name, t in tenants.items() if t}
    found = {
        (index, name.decode())
        for index in _named(client, pending_key("*"))
        for name in ask_sync(client, "ZRANGE", index, 0, -1)
    }
    missing = [f"{index} is without {delivery_key(n)}" for index, n in sorted(wanted - found)]
    return missing + [f"{index}: {n} is not to be made" for index, n in sorted(found - wanted)]


def _check_accounts(client: Redis, archived: Mapping[str, int]) -> list[str]:
    """Compare the bytes of each tenant's account with those of its records."""
    bytes_, promised = Counter[str](archived), Counter[str]()
    for key in client.scan_iter(match="job:*", count=1000):
        names = ("tenant", "bytes", "leaves", "status")
        tenant, kept, leaves, status = ask_sync(client, "HMGET", key, *names)
        bytes_[tenant.decode()] += int(kept or 0)
        is_open = not JobStatus(status.decode()).is_terminal
        promised[tenant.decode()] += int(leaves or 0) if is_open else 0
    for key in _named(client, upload_key("*")):
        tenant, kept = ask_sync(client, "HMGET", key, "tenant", "bytes")
        bytes_[tenant.decode()] += int(kept or 0)
    problems = []
    for key in _named(client, account_key("*")):
        tenant = key.partition(":")[2]
        told = ask_sync(client, "HMGET", key, "bytes", "promised")
        found = tuple(int(each or 0) for each in told)
        if found != (bytes_[tenant], promised[tenant]):
            problems.append(f"{key}: {found} are not {bytes_[tenant], promised[tenant]}")
    return problems


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
    if status.is_terminal == bool(fields.get(b"message")):
        problems.append(f"{status} and its message do not fit")
    return problems


def _indexes_of(status: JobStatus, fields: Fields) -> set[str]:
    tenant = fields[b"tenant"].decode()
    names = {tenant_key(tenant)}
    if status.is_terminal:
        return names | {FINISHED} | ({buried_key(tenant)} if b"buried" in fields else set())
    names.add(open_key(tenant))
    if b"deadline_at" in fields:
        names.add(DEADLINES)
    if status is JobStatus.RUNNING:
        return names | {LEASES, held_key(fields.get(b"worker", b"").decode())}
    name = list_of(fields[b"queue"].decode(), int(fields[b"priority"]))
    return names | {f"waiting:{name}", f"turns:{name}"}


def _check_message(client: Redis, job_id: str, fields: Fields) -> list[str]:
    tag = f"{job_id}:{int(fields[b'publication'])}".encode()
    message = fields[b"message"].replace(b"@@TAG@@", tag)
    name = list_of(fields[b"queue"].decode(), int(fields[b"priority"]))
    copies = ask_sync(client, "LRANGE", name, 0, -1).count(message)
    return [] if copies == 1 else [f"{job_id}: queued with {copies} messages"]
