"""Stations kept by what changes are those put together from all reports."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.cost import Cost
from core.boards.fleet import FleetChange, Worker
from core.boards.plan import Plan, Usual
from core.placement import own_queue_of
from scheduler.placement.placer import NO_PLAN
from scheduler.routing.model_ready import ModelReady
from scheduler.routing.stations import Mould, Station, Stations, station_of_worker
from tests.unit.scheduler.fakes import a_model, a_worker, station_of

MODEL = a_model("base", step_s=0.1)
MODELS = {"base": MODEL, "tiny": a_model("tiny", step_s=0.02)}
COST = Cost(fixed_s=0.2, steps=((1, 0.1), (8, 0.4)), is_measured=True)
COSTS = {"cpu": {"base": COST}}
PLAN = replace(NO_PLAN, costs=COSTS)


def a_station(**changes: object) -> Station:
    return station_of_worker(MODEL, replace(a_worker("w0", "base"), **changes), COSTS, {})  # type: ignore[arg-type]


def of(*fleet: Worker, queue: str = "gen.base", plan: Plan | None = PLAN) -> Station | None:
    stations = Stations({"base": MODEL})
    stations.hear(FleetChange(workers=fleet))
    return stations.of(queue, plan)


@pytest.mark.parametrize(("steps", "expected"), [(12.0, 12.0), (0.2, 1.0)])
def test_jobs_are_expected_to_be_like_the_last_ones(steps: float, expected: float) -> None:
    plan = replace(PLAN, usual={"base": Usual(steps=steps, images=2.5)})
    for queue in ("gen.base", own_queue_of("gen.base", "w0")):
        station = of(a_worker("w0", "base"), queue=queue, plan=plan)
        assert station is not None
        assert (station.mean_steps, station.job_images) == (expected, 2.5)
    assert a_station().job_images == 1.0, "a job that nobody knows more of makes one image"


def test_a_station_is_put_together_once_until_one_of_its_workers_or_the_plan_changes() -> None:
    fleet = [a_worker("w0", "base"), a_worker("w1", "tiny")]
    stations = Stations(MODELS)
    stations.hear(FleetChange(workers=fleet))
    found = stations.of("gen.base", PLAN)
    assert found == a_station()
    stations.hear(FleetChange(workers=[a_worker("w1", "tiny", running=3)], gone=["unheard-of"]))
    stations.hear(FleetChange(workers=[replace(fleet[0], starts_read=7)]))
    assert stations.of("gen.base", PLAN) is found, "nothing that it is made of"
    stations.hear(FleetChange(workers=[a_worker("w0", "base", running=3)]))
    assert stations.of("gen.base", PLAN) == a_station(running=3)
    assert stations.of("gen.base", None) != found
    assert stations.of("gen.unheard-of", PLAN) is None
    stations.hear(FleetChange(workers=[replace(fleet[0], running=3, waiting=2)]))
    found = stations.of("gen.base", PLAN)
    assert found is not None and found.present == 5
    stations.hear(FleetChange(gone=["w0"]))
    assert stations.of("gen.base", PLAN) is None


def test_a_workers_own_queue_is_served_by_that_worker_alone() -> None:
    fleet = [a_worker("w0@h", "base"), a_worker("w1@h", "base", running=8), a_worker("w2@h")]
    free, busy = (of(*fleet, queue=own_queue_of("gen.base", each.name)) for each in fleet[:2])
    assert free is not None and busy is not None
    assert (free.workers, free.present, busy.present) == (1, 0, 8)
    for nobody in ("gen.base@gone@h", "gen.base@w2@h", "gen.unheard-of@w0@h"):
        assert of(*fleet, queue=nobody) is None


workers = st.builds(
    lambda name, models, device, running, slots, slowness, step_s: replace(
        a_worker(name, *models, device_type=device, running=running),
        max_slots=slots,
        slowness=slowness,
        step_s=step_s,
    ),
    st.sampled_from([f"w{n}" for n in range(5)]),
    st.sampled_from([(), ("base",), ("tiny",), ("base", "tiny"), ("unheard-of",)]),
    st.sampled_from(["cpu", "gpu"]),
    st.integers(0, 8),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.3, 1.7]),
    st.sampled_from([0.0, 0.15]),
)
plans = st.sampled_from(
    [
        PLAN,
        replace(PLAN, costs={}),
        replace(PLAN, version=2, levels={"base@25": 1.0}),
        replace(PLAN, costs={"cpu": {"base": COST, "tiny": COST}, "gpu": {"tiny": COST}}),
    ]
)


@given(st.lists(st.one_of(workers, st.sampled_from([f"w{n}" for n in range(5)]), plans)))
def test_what_is_kept_by_changes_is_what_all_reports_say(
    happens: Sequence[Worker | str | Plan],
) -> None:
    stations, fleet, plan = Stations(MODELS), dict[str, Worker](), PLAN
    for each in happens:
        match each:
            case Worker():
                fleet[each.name] = each
                stations.hear(FleetChange(workers=[each]))
            case Plan():
                plan = each
            case str():
                fleet.pop(each, None)
                stations.hear(FleetChange(gone=[each]))
        for name, model in MODELS.items():
            expected = station_of(model, list(fleet.values()), plan.costs, plan.levels)
            found = stations.of(f"gen.{name}", plan)
            if found is None or expected is None:
                assert found is expected
                continue
            assert found.steps_s == pytest.approx(expected.steps_s)
            assert found.fixed_s == pytest.approx(expected.fixed_s)
            assert (found.workers, found.slots, found.present, found.is_known) == (
                expected.workers,
                expected.slots,
                expected.present,
                expected.is_known,
            )


def test_who_is_to_load_a_model_serves_it_then_and_has_nothing_to_do_before() -> None:
    busy = replace(a_worker("w0", "tiny", running=8), waiting=2, step_s=0.4)

    class OneWorker:
        plan = replace(NO_PLAN, costs=COSTS)

        def ready(self, model: str) -> ModelReady:
            return ModelReady(worker=busy, in_s=7.0)

    found = Stations({"base": MODEL}).coming("gen.base", OneWorker())  # type: ignore[arg-type]
    assert found == replace(a_station(), ready_s=7.0)


def test_nobody_comes_for_a_model_that_nobody_can_hold_or_has_heard_of() -> None:
    class Nobody:
        plan = NO_PLAN

        def ready(self, model: str) -> None:
            return None

    stations = Stations({"base": MODEL})
    for queue in ("gen.base", "gen.unheard-of"):
        assert stations.coming(queue, Nobody()) is None  # type: ignore[arg-type]


def test_what_is_cast_differs_from_its_mould_in_what_changes_alone() -> None:
    worker = a_worker("w0", "base", running=3)
    mould = Mould(worker, "running", "waiting")
    assert mould.cast(1, 2) == replace(worker, running=1, waiting=2)
    assert mould.cast(3, 0) == worker
    station = station_of_worker(MODEL, worker, COSTS, {})
    busier = Mould(station, "present").cast(9)
    assert busier == replace(station, present=9)
    assert busier.full_throughput == station.full_throughput
