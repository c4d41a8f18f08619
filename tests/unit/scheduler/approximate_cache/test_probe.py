import asyncio
import threading

from scheduler.approximate_cache.eviction import EvictionLedger
from scheduler.approximate_cache.finder import Finder
from scheduler.approximate_cache.probe import Probe, Probes
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch
from storage.fakes import MemoryVectors
from storage.fakes.objects import MemoryObjects
from tests.unit.scheduler.fakes import FakeEmbedder, a_lender


class World:
    """Probes over fakes, in a strategy without latents."""

    def __init__(self) -> None:
        self.now = 100.0
        self.switch, self.ledger = StrategySwitch(), EvictionLedger()
        self.embedder, self.objects = FakeEmbedder(), MemoryObjects()
        index = MemoryVectors()
        self.probes = Probes(
            self.switch,
            Finder(self.embedder, index, min_similarity={}, is_shared=False),
            self.objects,
            self.ledger,
            budget_s=60.0,
            period_s=0.001,
            clock=lambda: self.now,
        )
        self.switch.see(Dependency.STORE, bad=9, now=self.now)
        assert self.switch.turn(self.now, is_settled=True)

    async def probe(self, seconds: int = 15) -> bool:
        """Probe for a while; say whether latents are allowed again."""
        for _ in range(seconds):
            self.now += 1.0
            await self.probes.probe()
            self.switch.turn(self.now, is_settled=True)
        return self.switch.allows_latents


async def test_latents_come_back_when_both_answer_though_nothing_is_kept_yet() -> None:
    assert await World().probe()


async def test_what_a_job_would_read_is_read() -> None:
    world = World()
    world.ledger.add([a_lender("j1"), a_lender("j2", skips=(20,))])
    assert world.probes._key() == "latents/shop/j2/20.safetensors"
    assert await world.probe()


async def test_they_do_not_while_the_encoder_fails() -> None:
    world = World()
    world.embedder.is_broken = True
    assert not await world.probe()
    world.embedder.is_broken = False
    assert await world.probe(20)


async def test_a_question_that_hangs_is_not_asked_twice() -> None:
    asked, begun, until = [], threading.Event(), threading.Event()

    def hang() -> None:
        asked.append(1)
        begun.set()
        until.wait(60.0)

    probe = Probe(budget_s=0.02)
    assert [await probe.is_answered(hang) for _ in range(3)] == [False] * 3
    assert begun.wait(60.0) and len(asked) == 1
    until.set()
    probe._budget_s = 60.0
    while not await probe.is_answered(lambda: None):
        await asyncio.sleep(0.01)


async def test_whatever_fails_probes_go_on() -> None:
    world, asked = World(), asyncio.Event()

    def fail() -> str:
        asked.set()
        raise RuntimeError("a bug")

    world.probes._key = fail  # type: ignore[method-assign]
    running = asyncio.create_task(world.probes.run())
    await asked.wait()
    assert not running.done()
    running.cancel()
