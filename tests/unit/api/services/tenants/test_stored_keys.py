import asyncio

import pytest

from api.services.tenants.stored_keys import StoredKeys
from core.errors import Conflict, NotFound, StoreUnavailable
from storage.fakes import MemoryStore, MemoryTable
from storage.tenants.key import Scope, digest_of, draw, revoke


class CountingKeys(MemoryTable):
    """Counts trips, and can be away or busy."""

    trips, is_away, is_busy = 0, False, False

    async def version(self):
        self.trips += 1
        if self.is_away:
            raise StoreUnavailable("connection refused")
        return await super().version()

    async def read(self):
        self.trips += 1
        return await super().read()

    async def write(self, rows, *, read):
        return not self.is_busy and await super().write(rows, read=read)


@pytest.fixture
def store():
    return CountingKeys(MemoryStore(), "keys", lambda key: key.id)


def drawn():
    return draw("acme", [Scope.READ], now=1.0)


async def test_before_the_first_look_nobody_knows(store):
    with pytest.raises(StoreUnavailable):
        StoredKeys(store).find("digest")


async def test_a_key_of_another_process_is_known_after_a_look_and_ends_after_one(store):
    here, there = StoredKeys(store), StoredKeys(store)
    await here.refresh()
    key, kept = drawn()
    await there.add(kept)
    assert there.find(digest_of(key)) == kept and here.find(digest_of(key)) is None
    await here.refresh()
    assert here.find(digest_of(key)) == kept
    await there.change(kept.id, lambda old: [revoke(old, now=2.0)])
    await here.refresh()
    assert here.find(digest_of(key)).revoked_at == 2.0


async def test_looking_up_costs_no_trip_and_looking_again_one(store):
    keys = StoredKeys(store)
    await keys.refresh()
    before = store.trips
    for number in range(1000):
        assert keys.find(digest_of(f"wrong {number}")) is None
    assert store.trips == before
    await keys.refresh()
    assert store.trips == before + 1


async def test_while_the_store_is_away_the_keys_stay(store):
    keys, (key, kept) = StoredKeys(store), drawn()
    await keys.add(kept)
    store.is_away = True
    await keys.try_refresh()
    assert keys.find(digest_of(key)) == kept


async def test_a_key_that_is_written_is_known_even_if_the_store_goes_away_then(store):
    keys, (key, kept), (other, before) = StoredKeys(store), drawn(), drawn()
    await keys.add(before)
    write = store.write

    async def leave(rows, *, read):
        store.is_away = await write(rows, read=read)
        return store.is_away

    store.write = leave
    await keys.add(kept)
    assert (keys.find(digest_of(key)), keys.find(digest_of(other))) == (kept, before)


async def test_changes_at_the_same_time_are_all_made(store):
    many = [drawn()[1] for _ in range(8)]
    await asyncio.gather(*(StoredKeys(store).add(each) for each in many))
    assert {each.id for each in await StoredKeys(store).list()} == {each.id for each in many}


async def test_a_change_that_others_always_forestall_is_refused(store):
    store.is_busy = True
    with pytest.raises(Conflict, match="ask again"):
        await StoredKeys(store).add(drawn()[1])


async def test_a_key_that_is_not_there_is_not_changed(store):
    with pytest.raises(NotFound, match="nobody"):
        await StoredKeys(store).change("nobody", lambda old: [old])
