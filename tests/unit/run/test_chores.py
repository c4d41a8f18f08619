"""Upkeep's chores by what they wait for: whatever hangs, jobs of lost workers come back."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from core.settings import Settings
from run.chores import chores_by_matter
from storage.archive.archive import NO_ARCHIVE
from storage.fakes import MemoryLeadership, MemoryStore
from storage.redis.connect import connect
from tasks.upkeep.chores import ChoreRunner

#: What keeps jobs moving and asks the store alone.
RECOVERY = ("reap", "rebuild", "expire")


class Chores:
    """Counts what is done in place of each chore; one of them never ends."""

    def __init__(self, hanging: str) -> None:
        self.hanging, self.done = hanging, Counter[str]()

    async def do(self, name: str) -> None:
        self.done[name] += 1
        if name == self.hanging:
            await asyncio.Event().wait()


@pytest.mark.parametrize("hanging", ["trim", "reroute", "retain", "post", "republish", "score"])
async def test_jobs_of_lost_workers_come_back_while_a_chore_hangs(
    hanging: str, tmp_path: Path
) -> None:
    settings = Settings(models_dir=tmp_path, data_dir=tmp_path, url_secret=SecretStr("x" * 32))
    redis, acts, runners = connect(settings.redis_url), Chores(hanging), []
    async with httpx.AsyncClient() as scheduler:
        matters = chores_by_matter(settings, redis, scheduler, None, NO_ARCHIVE)
    for matter, chores in matters.items():
        for chore in chores:
            chore.run = partial(acts.do, chore.name)
        runners.append(ChoreRunner(MemoryLeadership(MemoryStore(), matter, "me", 60.0), chores))
    turns = [asyncio.create_task(runner.turn(0.0)) for runner in runners]
    await asyncio.sleep(0)
    for runner, turn in zip(runners, turns, strict=True):
        if turn.done():
            await runner.turn(1e4)
        turn.cancel()
    assert [turn.done() for turn in turns].count(False) == 1
    assert [acts.done[name] for name in (hanging, *RECOVERY)] == [1, 2, 2, 2]
    await redis.aclose()
