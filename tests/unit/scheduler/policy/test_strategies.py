"""What sets the policies apart: which levels they consider, and whether they know classes."""

import pytest

from core.levels.approximation import skipping
from core.levels.level import Level
from scheduler.allocation.objective import value
from scheduler.allocation.problem import Allocation, Demand, Instance
from scheduler.allocation.registry import POLICIES, find_policy

ALL = (
    Level(model="base"),
    Level(model="base", approximation=skipping(20)),
    Level(model="tiny"),
)
SECONDS = {"base@0": 1.0, "base@20": 0.6, "tiny@0": 0.25}
QUALITY = {
    "easy": {"base@0": 1.0, "base@20": 0.98, "tiny@0": 0.7},
    "hard": {"base@0": 1.0, "base@20": 0.6, "tiny@0": 0.4},
}


def an_instance(rate: float, levels: tuple[Level, ...] = ALL) -> Instance:
    """Half of the prompts lose nothing by K = 20, the other half much; four workers."""
    return Instance(
        devices={"gpu": 4},
        levels=levels,
        demands=tuple(
            Demand(application="default", affinity=c, models=("base", "tiny"), rate=rate / 2)
            for c in QUALITY
        ),
        tau={(level, "gpu"): s for level, s in SECONDS.items()},
        quality={(c, level): q for c, row in QUALITY.items() for level, q in row.items()},
        worth={"base": 1.0, "tiny": 0.55},
        load={("gpu", "base"): 1.0, ("gpu", "tiny"): 1.0},
        gap=1e-6,
    )


def taken(allocation: Allocation) -> dict[tuple[int, str], float]:
    return {(flow.demand, flow.level): flow.rate for flow in allocation.flows}


@pytest.mark.parametrize("name", ["ac", "argus", "pac", "nirvana"])
@pytest.mark.parametrize("rate", [4.0, 8.0])
def test_while_steps_can_be_skipped_every_worker_holds_the_best_model(
    name: str, rate: float
) -> None:
    """However many come: the strategy changes where latents cannot be had, not with the load."""
    assert find_policy(name)(an_instance(rate)).models == {"base"}


@pytest.mark.parametrize("name", ["ac", "argus", "pac"])
def test_without_skipped_steps_smaller_models_serve_instead(name: str) -> None:
    without = (Level(model="base"), Level(model="tiny"))
    assert find_policy(name)(an_instance(5.0, without)).models == {"base", "tiny"}


def test_proteus_knows_no_skipped_steps() -> None:
    assert find_policy("proteus")(an_instance(5.0)).levels.keys() == {"base@0", "tiny@0"}


def test_argus_lets_those_skip_steps_who_lose_nothing() -> None:
    """4.4 jobs/s in 3.6 s/s of workers: 2 of them must skip, and the easy ones are enough."""
    found = taken(find_policy("argus")(an_instance(4.4)))
    assert found == pytest.approx({(0, "base@20"): 2.0, (0, "base@0"): 0.2, (1, "base@0"): 2.2})


def test_without_classes_hard_prompts_skip_as_many_steps_as_easy_ones() -> None:
    found = taken(find_policy("pac")(an_instance(4.5)))
    assert found[0, "base@20"] == pytest.approx(found[1, "base@20"])


def test_nirvana_skips_what_the_prompt_allows_however_few_wait() -> None:
    found = taken(find_policy("nirvana")(an_instance(1.0)))
    assert found == pytest.approx({(0, "base@20"): 0.5, (1, "base@0"): 0.5})


def test_nirvana_under_overload_leaves_as_many_of_each_class_unserved() -> None:
    instance = an_instance(9.0)
    allocation = find_policy("nirvana")(instance)
    assert allocation.unserved == pytest.approx([2.25, 2.25])


def test_the_joint_plan_uses_both_strategies_at_once() -> None:
    instance = an_instance(7.0)
    ours = find_policy("atelier")(instance)
    assert ours.levels.keys() == {"base@0", "base@20", "tiny@0"}
    for name in POLICIES.keys() - {"atelier", "program"}:
        assert value(instance, ours) > value(instance, find_policy(name)(instance)) + 0.01
