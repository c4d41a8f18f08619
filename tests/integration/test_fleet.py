"""Real workers come and are killed; the scheduler is a process beside them."""

import time
from collections.abc import Callable

import pytest

from cli.stack.ports import free_port
from core.boards.plan import Plan
from storage.boards.fleet import read_plan
from tests.rig import Rig, a_rig

pytestmark = pytest.mark.integration


def seconds_until(rig: Rig, holds: Callable[[], object]) -> float:
    began = time.monotonic()
    rig.wait_until(lambda: bool(holds()))
    return time.monotonic() - began


def test_a_new_worker_is_used_at_once_and_a_killed_one_is_out_within_five_seconds(tmp_path):
    with a_rig(tmp_path) as rig, rig.client() as store:

        def plan() -> Plan:
            found = read_plan(store)
            assert found is not None
            return found

        rig.start("scheduler", "run.scheduler", ATELIER_SCHEDULER_PORT=str(free_port()))
        first = rig.worker("first")
        rig.wait_for_worker("first")
        rig.wait_until(lambda: read_plan(store) is not None and plan().assignments)
        rig.wait_until(lambda: plan().costs["cpu"]["slow"].is_measured)
        cost = plan().costs["cpu"]["slow"]  # no profile knows it: the worker has tried it
        assert 0.01 <= cost.step_s(1) < 0.05
        rig.worker("second")
        rig.wait_until(lambda: store.hexists("fleet", "second@rig"))
        assert seconds_until(rig, lambda: "second@rig" in plan().assignments) < 2.0
        first.kill()
        assert seconds_until(rig, lambda: "first@rig" not in plan().assignments) < 5.0
        assert plan().assignments == {"second@rig": "slow"}
