"""What holds of every policy by a name, on random instances and at the edges."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from core.levels.level import Level
from scheduler.allocation.objective import mean_quality, saturation, value
from scheduler.allocation.policies.level_choice import PAPERS
from scheduler.allocation.problem import Instance
from scheduler.allocation.registry import POLICIES, find_policy
from tests.unit.scheduler.allocation.test_allocate import an_instance
from tests.unit.scheduler.instances import instances
from tests.unit.scheduler.laws import check_limits, check_rows

OTHERS = [name for name in POLICIES if name != "atelier"]
BOTH = ("base", "tiny")


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=10, deadline=None)
@given(instance=instances())
def test_any_policy_respects_every_limit_and_its_rows_cause_its_loads(
    name: str, instance: Instance
) -> None:
    allocation = find_policy(name)(instance)
    check_limits(instance, allocation)
    check_rows(instance, allocation)


@settings(max_examples=40, deadline=None)
@given(instance=instances(fewest_models=2))
def test_the_joint_plan_is_never_worse_than_argus_or_proteus(instance: Instance) -> None:
    """Quality that is expected; `bench.allocate` asks the same of 1,000 larger instances."""
    instance = replace(instance, prices=PAPERS)
    ours = value(instance, find_policy("atelier")(instance))
    for name in ("argus", "proteus"):
        theirs = value(instance, find_policy(name)(instance))
        assert ours >= theirs - 1e-4 * (1 + abs(theirs))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "instance",
    [
        pytest.param(an_instance(2), id="nobody asks"),
        pytest.param(an_instance(2, (BOTH, 0.0)), id="a class without demand"),
        pytest.param(an_instance(1, (BOTH, 0.5)), id="one device"),
        pytest.param(an_instance(2, (BOTH, 500.0)), id="overload"),
        pytest.param(an_instance(0, (BOTH, 1.0)), id="no device"),
        pytest.param(replace(an_instance(2, (BOTH, 1.0)), load={}), id="no model fits"),
        pytest.param(
            replace(
                an_instance(2, (("base",), 1.0)),
                levels=(Level(model="base"),),
                load={("cpu", "base"): 1.0},
            ),
            id="one level",
        ),
        pytest.param(
            replace(an_instance(3, (BOTH, 1.0)), settling={("cpu", "tiny"): 2}), id="two load"
        ),
    ],
)
def test_any_policy_copes_with(name: str, instance: Instance) -> None:
    allocation = find_policy(name)(instance)
    check_limits(instance, allocation)
    check_rows(instance, allocation)
    assert saturation(instance, allocation) <= 1.0


@pytest.mark.parametrize("name", POLICIES)
def test_a_model_that_jobs_waited_for_too_long_goes_before_the_others(name: str) -> None:
    stranded = frozenset({"tiny"})
    instance = replace(an_instance(1, (("base",), 9.0), (("tiny",), 0.01)), stranded=stranded)
    assert find_policy(name)(instance).models == {"tiny"}


@pytest.mark.parametrize(
    ("name", "quality"),
    [  # 2 workers: base ends 1 job/s, tiny 4; base alone serves 1.8 jobs/s, one of each 4.5
        ("atelier", (0.9 + 0.6 * 2.1) / 3.0),
        ("argus", (0.9 + 0.6 * 2.1) / 3.0),
        ("pac", (0.9 + 0.6 * 2.1) / 3.0),
        ("proteus", (0.9 + 0.6 * 2.1) / 3.0),
        ("infaas", (0.9 + 0.6 * 2.1) / 3.0),
        ("sommelier", 0.6),
        ("clipper-ha", 1.0),
        ("clipper-ht", 0.6),
        ("nirvana", 1.0),
    ],
)
def test_at_a_load_that_the_best_model_cannot_serve_alone(name: str, quality: float) -> None:
    instance = an_instance(2, (BOTH, 3.0))
    allocation = find_policy(name)(instance)
    assert mean_quality(instance, allocation) == pytest.approx(quality)
    is_static = name in ("clipper-ha", "nirvana")
    assert saturation(instance, allocation) == pytest.approx(0.4 if is_static else 0.0, abs=1e-9)
