"""Plan, fleet and models are followed whatever one look at them raises."""

import asyncio
import errno

from api.services.served_models import FollowingTokens, ServedModels
from api.services.services import _refresh
from catalog.catalogue import Catalogue
from storage.redis.connect import end
from tests.unit.api.conftest import PLAN


class FailingOnce(Catalogue):
    """Models on a volume that is away at the first look."""

    looks = 0

    def look(self):
        self.looks += 1
        if self.looks == 1:
            raise OSError(errno.ESTALE, "Stale file handle")
        return super().look()


async def refresh_until(services, is_done):
    task = asyncio.create_task(_refresh(services, 0.001))
    try:
        async with asyncio.timeout(10):
            while not (is_done() or task.done()):
                await asyncio.sleep(0.001)
    finally:
        await end([task])
    assert is_done()


async def test_a_volume_that_fails_at_one_look_ends_no_other(client, stack, logs, tmp_path):
    models = FailingOnce(tmp_path / "models")
    tokens = FollowingTokens(models.folder, models)
    stack.services.served = ServedModels(catalogue=models, tokens=tokens)
    await stack.board.publish(PLAN)
    await refresh_until(stack.services, lambda: models.looks == 3)
    assert stack.follower.plan == PLAN
    assert [entry["event"] for entry in logs].count("models_not_followed") == 1


async def test_models_are_followed_while_the_store_is_away(client, stack, logs, tmp_path):
    models = FailingOnce(tmp_path / "models")
    tokens = FollowingTokens(models.folder, models)
    stack.services.served = ServedModels(catalogue=models, tokens=tokens)
    stack.is_store_up = False
    await refresh_until(stack.services, lambda: models.looks == 2)
    told = [entry for entry in logs if entry["event"] == "plan_and_fleet_not_read"]
    assert told and all(entry["dependency"] == "store" for entry in told)


async def test_what_cannot_be_read_of_the_fleet_is_read_again(client, stack, logs):
    reads = []

    async def depths(queues):
        reads.append(queues)
        if len(reads) == 1:
            raise ValueError("a report of a newer release")
        return []

    stack.services.jobs.depths = depths
    await refresh_until(stack.services, lambda: len(reads) == 3)
    assert [entry["event"] for entry in logs].count("plan_and_fleet_not_followed") == 1
