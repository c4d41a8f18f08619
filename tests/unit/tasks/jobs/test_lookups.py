"""Look-ups of strangers' names, through a resolver of which some names hang."""

import asyncio
import socket
from threading import Event, Lock

import pytest

from tasks.jobs.lookups import MAX_LOOKUPS, MAX_OF_TENANT, Lookups, look_up

HANGS, ADDRESS = "hangs.example", "93.184.216.34"


class Resolver:
    """Answers at once, except for names that hang until they are let go."""

    def __init__(self):
        self.let_go, self._lock = Event(), Lock()
        self.hanging = self.most = self.ended = 0

    def look_up(self, host, port):
        if host == HANGS:
            with self._lock:
                self.hanging += 1
                self.most = max(self.most, self.hanging)
            self.let_go.wait()
            with self._lock:
                self.ended += 1
                self.hanging -= 1  # last: who sees that none hangs takes no lock
            raise socket.gaierror(socket.EAI_AGAIN, "no server answers")
        return [ADDRESS]

    async def hang(self, count):
        """Wait until so many look-ups hang."""
        async with asyncio.timeout(30):
            while self.hanging < count:
                await asyncio.sleep(0.01)


@pytest.fixture
def resolver():
    resolver = Resolver()
    yield resolver
    resolver.let_go.set()


def begin(lookups, tenant, *hosts):
    return [asyncio.create_task(lookups.resolve(tenant, host, 443)) for host in hosts]


async def test_an_address_is_looked_up():
    assert await Lookups().resolve("ann", "127.0.0.1", 443) == ["127.0.0.1"]
    assert look_up("127.0.0.1", 443) == ["127.0.0.1"]


async def test_what_a_tenant_leaves_hanging_holds_up_no_other(resolver):
    lookups = Lookups(resolver.look_up)
    hung = begin(lookups, "ann", *[HANGS] * MAX_LOOKUPS)
    await resolver.hang(MAX_OF_TENANT)
    async with asyncio.timeout(30):
        assert await lookups.resolve("ben", "example.com", 443) == [ADDRESS]
    resolver.let_go.set()
    ended = await asyncio.gather(*hung, return_exceptions=True)
    assert [type(each) for each in ended] == [socket.gaierror] * MAX_LOOKUPS
    assert resolver.most == MAX_OF_TENANT


async def test_a_turn_lasts_until_the_look_up_has_ended_whoever_has_left(resolver):
    lookups = Lookups(resolver.look_up)
    for _ in range(MAX_OF_TENANT):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await lookups.resolve("ann", HANGS, 443)
    await resolver.hang(MAX_OF_TENANT)
    left, stays = begin(lookups, "ann", HANGS, "example.com")
    done, _ = await asyncio.wait([left, stays], timeout=0.05)
    assert not done
    left.cancel()  # it has had no turn yet: nothing is left of it
    resolver.let_go.set()
    async with asyncio.timeout(30):
        assert await stays == [ADDRESS]
        while resolver.hanging:
            await asyncio.sleep(0.01)
    assert resolver.ended == MAX_OF_TENANT


async def test_who_finds_no_thread_free_waits_for_one(resolver):
    lookups = Lookups(resolver.look_up)
    tenants = [f"tenant {number}" for number in range(MAX_LOOKUPS // MAX_OF_TENANT)]
    hung = [each for name in tenants for each in begin(lookups, name, *[HANGS] * MAX_OF_TENANT)]
    await resolver.hang(MAX_LOOKUPS)
    (waiting,) = begin(lookups, "ben", "example.com")
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    resolver.let_go.set()
    assert await waiting == [ADDRESS]
    await asyncio.gather(*hung, return_exceptions=True)
