"""Which settings of a store lose jobs, asked as a user that may ask everything."""

import pytest

from storage.redis.durability import read_durability


@pytest.fixture
def admin(real):
    yield real.sync
    real.sync.execute_command("ACL SETUSER default ~* &* +@all")
    for setting, value in (
        ("maxmemory", "0"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "yes"),
    ):
        real.sync.config_set(setting, value)


async def test_the_settings_of_the_embedded_stack_lose_nothing(real):
    found = await read_durability(real.client)
    assert (found.faults, found.unknown) == ((), ())


async def test_a_store_without_a_log_is_named_with_what_to_write(real, admin):
    admin.config_set("appendonly", "no")
    [fault] = (await read_durability(real.client)).faults
    assert "`appendonly yes`" in fault


async def test_a_store_that_evicts_once_its_memory_is_full_is_named(real, admin):
    admin.config_set("maxmemory-policy", "allkeys-lru")
    assert (await read_durability(real.client)).faults == ()  # no limit, nothing to evict
    admin.config_set("maxmemory", "1gb")
    [fault] = (await read_durability(real.client)).faults
    assert "allkeys-lru" in fault and "`maxmemory-policy noeviction`" in fault


@pytest.mark.parametrize("rule", ["-publish", "-xadd", "-@write"])
async def test_a_user_default_that_cannot_replay_what_scripts_wrote_is_named(real, admin, rule):
    admin.execute_command(f"ACL SETUSER default {rule}")
    [fault] = (await read_durability(real.client)).faults
    assert "`user default off ~* &* +@all`" in fault


async def test_what_our_user_may_not_ask_is_unknown_and_no_fault(real, admin):
    admin.execute_command("ACL SETUSER default -info -acl|dryrun")
    found = await read_durability(real.client)
    assert found.faults == ()
    assert len(found.unknown) == 3
