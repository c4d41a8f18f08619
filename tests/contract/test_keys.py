from core.codec import encode
from storage.redis.script import call_sync, load
from storage.tenants.key import Scope, TenantKey, draw, revoke
from tests.contract.house import House, RedisHouse


def a_key(tenant: str = "t", now: float = 1.5) -> TenantKey:
    return draw(tenant, [Scope.READ, Scope.SUBMIT], now=now, name="ci", expires_in_s=60.0)[1]


async def test_at_first_there_are_none(house: House) -> None:
    assert await house.keys.version() == ""
    table = await house.keys.read()
    assert (table.version, table.rows) == ("", ())


async def test_what_was_written_is_read_and_has_a_version(house: House) -> None:
    first, second = a_key(), a_key("u", now=2.5)
    assert await house.keys.write([first, second], read="")
    table = await house.keys.read()
    assert set(table.rows) == {first, second}
    assert table.version == await house.keys.version() != ""


async def test_a_change_made_without_knowing_another_is_not_made(house: House) -> None:
    key = a_key()
    assert await house.keys.write([key], read="")
    table = await house.keys.read()
    ended = revoke(key, now=3.0)
    assert await house.keys.write([ended], read=table.version)
    assert not await house.keys.write([key], read=table.version)
    assert not await house.keys.write([a_key()], read="")
    again = await house.keys.read()
    assert again.rows == (ended,) and again.version != table.version


async def test_a_change_whose_answer_was_lost_is_answered_alike(real: RedisHouse) -> None:
    key = a_key()
    words = ("keys", "", "the next", key.id, encode(key))
    assert [call_sync(real.sync, load("write_table"), *words) for _ in range(2)] == [1, 1]
    table = await real.keys.read()
    assert (table.version, table.rows) == ("the next", (key,))
    ended = revoke(key, now=3.0)
    assert await real.keys.write([ended], read=table.version)
    assert call_sync(real.sync, load("write_table"), *words) == 0
    assert (await real.keys.read()).rows == (ended,)
