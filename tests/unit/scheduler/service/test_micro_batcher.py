import asyncio
import threading
import time

import pytest

from bench.parts.batch_policies import Batching, make_policy
from scheduler.service.batching import BatchLatency
from scheduler.service.micro_batcher import Batcher


class Doubling:
    """Doubles numbers, once it may."""

    def __init__(self):
        self.may, self.batches = threading.Event(), []
        self.may.set()

    def __call__(self, numbers):
        self.may.wait(5.0)
        self.batches.append(list(numbers))
        if 13 in numbers:
            raise ValueError("unlucky")
        return [2 * number for number in numbers]


def a_batcher(run, *, name=Batching.NEXUS, slo_s=5.0, most=4, guess=(1e-3, 1e-4)):
    return Batcher(
        run, make_policy(name, BatchLatency(*guess), slo_s=slo_s, most=most), slo_s=slo_s
    )


async def test_what_comes_while_a_batch_runs_shares_the_next_ones():
    run = Doubling()
    batcher = a_batcher(run)
    run.may.clear()
    first = asyncio.create_task(batcher([1]))
    await asyncio.sleep(0.01)
    rest = [asyncio.create_task(batcher([2 * i, 2 * i + 1])) for i in range(1, 4)]
    await asyncio.sleep(0.01)
    run.may.set()
    assert await first == [2]
    assert await asyncio.gather(*rest) == [[4, 6], [8, 10], [12, 14]]
    assert run.batches == [[1], [2, 3, 4, 5], [6, 7]]
    batcher.close()


async def test_a_policy_that_waits_gathers_what_comes_one_by_one():
    run = Doubling()
    batcher = a_batcher(run, name=Batching.PROTEUS, slo_s=0.3, guess=(0.05, 0.01))
    assert await asyncio.gather(batcher([1]), batcher([2]), batcher([3])) == [[2], [4], [6]]
    assert run.batches == [[1, 2, 3]]
    batcher.close()


async def test_nobody_waits_longer_than_the_time_there_is_and_nobody_makes_what_is_late():
    run = Doubling()
    batcher = a_batcher(run, slo_s=0.05, most=1)
    run.may.clear()
    began = time.perf_counter()
    assert await batcher([1, 2]) == [None, None]
    assert time.perf_counter() - began < 1.0
    run.may.set()
    await asyncio.sleep(0.02)
    assert [2] not in run.batches
    assert await a_batcher(run)([3]) == [6]
    batcher.close()


async def test_an_error_is_everybodys_in_its_batch_and_nobody_elses():
    run = Doubling()
    batcher = a_batcher(run)
    with pytest.raises(ValueError, match="unlucky"):
        await batcher([1, 13])
    assert await batcher([1]) == [2]
    assert await batcher([]) == []
    batcher.close()
