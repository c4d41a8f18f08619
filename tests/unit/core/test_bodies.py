"""Bodies have time for as long as they come, and memory in which one client leaves a share."""

import asyncio
import time

import pytest

from core.bodies import incoming
from core.bodies.incoming import BODY_S, MIN_RATE, BodyClock, HeldBytes
from core.errors import TooManyRequests, TooSlow


class Slow:
    """A body whose parts take their time, by a clock that nobody waits for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.clock = BodyClock(lambda: self.now)

    async def send(self, size_bytes: int, *, after_s: float) -> None:
        """Send a part."""

        async def part() -> None:
            self.now += after_s

        await self.clock.wait_for(part())
        self.clock.add(size_bytes)


async def test_a_silent_body_is_given_up_however_fast_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(incoming, "BODY_S", 0.05)
    body, began = BodyClock(), time.perf_counter()
    body.add(100 * MIN_RATE)
    with pytest.raises(TooSlow, match=r"without a pause of 0\.05 s"):
        await body.wait_for(asyncio.Event().wait())
    assert 0.05 <= time.perf_counter() - began < 50  # not 100


async def test_a_body_that_comes_at_the_rate_is_waited_for_as_long_as_it_takes() -> None:
    body = Slow()
    for _ in range(20):
        await body.send(15 * MIN_RATE, after_s=15)
    assert body.clock.left_s == BODY_S


async def test_a_body_that_trickles_is_given_up() -> None:
    body = Slow()
    for _ in range(2):
        await body.send(MIN_RATE, after_s=BODY_S)
    with pytest.raises(TooSlow):
        await body.clock.wait_for(asyncio.Event().wait())


def held_by(**clients: int) -> HeldBytes:
    """Hold bodies in parts of a hundred, for each client as many as it asks for or gets."""
    held = HeldBytes(4000, 1000)
    for client, size in clients.items():
        try:
            for _ in range(0, size, 100):
                held.hold(client, 100)
        except TooManyRequests:
            pass
    return held


def test_whoever_is_alone_leaves_a_quarter_and_others_get_it() -> None:
    held = held_by(first=9000)
    assert held.total_bytes == 3000
    held.hold("second", 1000)
    with pytest.raises(TooManyRequests, match="4000 bytes in all"):
        held.hold("third", 1)


def test_whoever_has_more_than_a_quarter_waits_for_those_who_have_less() -> None:
    held = held_by(first=2000, second=1000)
    with pytest.raises(TooManyRequests):
        held.hold("first", 100)
    held.hold("third", 1000)
    held.hold("first", 0)  # a body that ends, or goes to disk, asks for no more


def test_what_is_given_back_is_there_for_all() -> None:
    held = held_by(first=9000, second=9000)
    held.release("first", 3000)
    held.release("second", 1000)
    assert held.total_bytes == 0
    held.hold("second", 3000)


def test_two_of_the_largest_bodies_have_room_however_large_they_are() -> None:
    held = HeldBytes(1000, 5000)
    held.hold("first", 5000)
    held.hold("second", 2500)
    held.release("first", 5000)
    held.hold("second", 2500)
