"""Processes of two versions beside one store: what may be written is what all of them read."""

from dataclasses import replace

import pytest

from core.codec import decode, encode
from core.errors import ConfigurationError, NewerSchema
from core.schema import SCHEMA, Schema, Versioned
from storage.boards.schema import SchemaAnnouncer
from tests.contract.house import id_of, new_job
from tests.contract.test_fleet import PLAN

OLD = {Versioned.PLAN: (1,)}
NEW = {Versioned.PLAN: (1, 2)}
A_DAY_S = 86400.0


def never():
    raise AssertionError("the store is not newer")


def announcer(house, name, changes, settle_s=0.0, on_newer=never, every_s=60.0):
    return SchemaAnnouncer(
        house.sync,
        name,
        settle_s=settle_s,
        on_newer=on_newer,
        schema=Schema(changes),
        every_s=every_s,
    )


@pytest.fixture
def used(real):
    """A store that versions without numbers have used."""
    real.sync.hset("stats", "submitted", 0)
    return real


def in_force(made):
    made.announce()
    return made._schema.in_force


async def test_a_new_store_is_written_as_its_first_process_reads(real):
    assert in_force(announcer(real, "api", NEW)) == 2


async def test_a_store_without_a_number_has_the_first(used):
    assert in_force(announcer(used, "api", NEW, A_DAY_S)) == 1


async def test_the_newer_form_waits_until_the_last_old_process_has_gone(used):
    old, new = announcer(used, "w1", OLD), announcer(used, "w2", NEW)
    old.announce()
    assert in_force(new) == 1
    old._tell(0)
    assert in_force(new) == 2


async def test_it_waits_until_nobody_has_come_back_for_a_while(used):
    old, new = announcer(used, "w1", OLD), announcer(used, "w2", NEW, A_DAY_S)
    assert in_force(new) == 1
    used.sync.set("schema:since", int(used.sync.get("schema:since")) - 86_300_000)
    old.announce()  # taken back: the day begins anew
    old._tell(0)
    assert in_force(new) == 1
    used.sync.set("schema:since", int(used.sync.get("schema:since")) - 86_300_000)
    assert in_force(new) == 1
    used.sync.set("schema:since", int(used.sync.get("schema:since")) - 100_001)
    assert in_force(new) == 2
    assert not used.sync.exists("schema:since")


async def test_a_process_that_died_counts_no_more_once_it_has_been_silent(used):
    old, new = announcer(used, "w1", OLD), announcer(used, "w2", NEW)
    old.announce()
    assert in_force(new) == 1
    used.sync.zadd("schema:readers", {"1 w1": 1})
    assert in_force(new) == 2


async def test_an_older_version_does_not_start_beside_newer_forms(real):
    announcer(real, "w2", NEW).announce()
    with pytest.raises(ConfigurationError, match="schema 2, and this version reads up to 1"):
        announcer(real, "w1", OLD).start()


async def test_one_that_was_silent_for_an_upgrade_ends(used):
    ended = []
    old = announcer(used, "w1", OLD, on_newer=lambda: ended.append(1), every_s=0.02)
    old.start()
    used.sync.set("schema", 2)
    old._thread.join(10)
    assert ended == [1]


async def test_it_announces_until_it_is_stopped(used):
    made = announcer(used, "w1", NEW, every_s=0.02)
    made.start()
    used.sync.delete("schema:readers")
    while not used.sync.zcard("schema:readers"):
        assert made._thread.is_alive()
    made._client = type(used.sync).from_pool(used.sync.connection_pool)
    made.stop()
    assert used.sync.zrange("schema:readers", 0, -1) == []


NEWER = SCHEMA.number + 1


async def test_a_record_bears_its_number(real):
    await real.jobs.submit([new_job()])
    assert int(real.sync.hget("job:j1", "schema")) == SCHEMA.stamp(Versioned.RECORD)


async def test_a_record_without_a_number_is_read(real):
    await real.jobs.submit([new_job()])
    real.sync.hdel("job:j1", "schema")
    assert (await real.jobs.get("j1")).id == "j1"


async def test_a_job_of_a_newer_version_is_left_to_it_uncharged(real):
    await real.jobs.submit([new_job()])
    message = real.pop("gen.m")
    real.sync.hset("job:j1", "schema", NEWER)
    with pytest.raises(NewerSchema, match="record of job j1"):
        await real.jobs.get("j1")
    assert real.leases().claim(id_of(message)) is None
    assert real.sync.hget("job:j1", "status") == b"queued"
    assert len(real.messages("gen.m")) == 1
    real.sync.hset("job:j1", "schema", 1)
    claim = real.leases().claim("j1")
    assert claim is not None
    assert claim.job.attempts == 1


async def test_an_event_of_a_newer_version_ends_the_stream(real):
    await real.jobs.submit([new_job()])
    real.sync.xadd("events:j1", {"event": "status", "schema": NEWER, "what": "else"})
    with pytest.raises(NewerSchema):
        await anext(real.events.follow("j1"))


async def test_a_plan_of_a_newer_version_is_not_followed_and_the_next_one_is(real):
    assert await real.board.publish(replace(PLAN, version=1))
    document = decode(real.sync.hget("plan", "document"), dict[str, object])
    newer = {"schema": NEWER, "pasm": "in another form"}
    real.sync.hset("plan", mapping={"version": 2, "document": encode(document | newer)})
    for _ in "ab":
        with pytest.raises(NewerSchema):
            await real.board.read()
    assert await real.board.publish(replace(PLAN, version=3))
    assert (await real.board.read()).version == 3
