"""Real workers come and are killed; the scheduler is a process beside them."""

import pytest

from cli.stack.ports import free_port
from core.boards.fleet import Worker
from core.boards.plan import Plan
from core.codec import decode
from tests.plan import read_plan
from tests.rig import a_rig

pytestmark = pytest.mark.integration


def test_a_new_worker_is_used_and_a_killed_one_is_out_before_the_period_ends(tmp_path):
    """What happens to the fleet calls for a plan: no period of this one ever ends."""
    with a_rig(tmp_path, ATELIER_PLAN_PERIOD_S="3600") as rig, rig.client() as store:

        def plan() -> Plan:
            found = read_plan(store)
            assert found is not None
            return found

        first = rig.worker("first")
        rig.wait_for_worker("first")
        rig.wait_until(lambda: "slow" in decode(store.hget("fleet", "first@rig"), Worker).costs)
        rig.start("scheduler", "run.scheduler", ATELIER_SCHEDULER_PORT=str(free_port()))
        rig.wait_until(lambda: read_plan(store) is not None and plan().assignments)
        cost = plan().costs["cpu"]["slow"]  # no profile knows it: the worker has tried it
        assert cost.is_measured and cost.step_s(1) >= 0.01
        rig.worker("second")
        rig.wait_until(lambda: "second@rig" in plan().assignments)
        first.kill()
        rig.wait_until(lambda: "first@rig" not in plan().assignments)
        assert plan().assignments == {"second@rig": "slow"}
