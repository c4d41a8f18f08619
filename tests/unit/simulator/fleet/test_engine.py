"""The model of the engine against the engine: the same jobs are made at the same moments."""

import heapq
import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.boards.cost import Cost
from core.placement import PlacementQuery
from scheduler.placement.step_cost import StepCosts
from simulator.fleet.engine import EngineModel
from simulator.fleet.job import SimulatedJob
from simulator.fleet.step_times import StepTimes
from tests.unit.simulator.fleet.real import MODEL, Asked, made_at

CURVES = {
    "in proportion": [0.1 * n for n in range(1, 9)],
    "best with four": [0.1 * s for s in (1, 1.55, 2.2, 2.9, 3.65, 4.45, 5.2, 6.0)],
    "less than in proportion": [0.1 * (1 + 0.33 * n) for n in range(8)],
    "flat": [0.1] * 8,
}
QUERY = PlacementQuery(prompt="", models=(MODEL.name,))


def modelled(
    cases: Sequence[Asked], curve: Sequence[float], *, slots: int, decode_s: float = 0.0
) -> dict[int, float]:
    cost = Cost(fixed_s=decode_s, steps=tuple(enumerate(curve, start=1)))
    costs = StepCosts(start_s=0.0, row_s=0.0, pixels=1)
    engine = EngineModel(slots, {MODEL.name: StepTimes(cost, costs, slots=slots)})
    ends: dict[int, float] = {}
    jobs = [job_of(row, each, decode_s) for row, each in enumerate(cases)]
    events: list[tuple[float, int, int]] = [(each.at, 1, row) for row, each in enumerate(cases)]
    for row, each in enumerate(cases):
        if each.stop_s is not None:
            events.append((each.at + each.stop_s, 0, row))
        if each.deadline_s is not None:
            events.append((each.at + each.deadline_s, 2, row))
    heapq.heapify(events)
    while events or engine.change_at < math.inf:
        if not events or engine.change_at < events[0][0]:
            now = engine.change_at
            for job, at in engine.change(now):
                ends[job.row] = at
            continue
        now, kind, row = heapq.heappop(events)
        if kind == 1:
            engine.add(jobs[row], now)
        elif row not in ends and not jobs[row].is_over:
            jobs[row].is_over = True
            engine.stop(now)
    return ends


def job_of(row: int, asked: Asked, decode_s: float) -> SimulatedJob:
    limit = math.inf if asked.deadline_s is None else asked.at + asked.deadline_s
    job = SimulatedJob(row=row, at=asked.at, due=min(asked.at + asked.slo_s, limit), query=QUERY)
    job.model, job.images, job.steps = MODEL.name, asked.images, asked.steps
    job.size, job.deadline = 4.0 if asked.is_large else 1.0, limit
    job.decode_s = decode_s
    job.begin()
    return job


moments = st.integers(0, 400).map(lambda n: n * 0.0173)
#: Never at the same moment as the end of a step.
odd = st.integers(1, 350).map(lambda n: n * 0.01731 + 0.00007)
small_cases = st.lists(
    st.builds(
        Asked,
        at=moments,
        steps=st.integers(1, 12),
        images=st.integers(1, 3),
        slo_s=st.sampled_from([2.0, 10.0]),
    ),
    min_size=1,
    max_size=12,
)
curves = st.sampled_from(sorted(CURVES))


@settings(max_examples=40)
@given(cases=small_cases, curve=curves, slots=st.integers(1, 8))
def test_jobs_are_made_when_the_engine_makes_them(cases, curve, slots):
    expected = made_at(cases, CURVES[curve], slots=slots)
    assert modelled(cases, CURVES[curve], slots=slots) == pytest.approx(expected)


@settings(max_examples=40)
@given(cases=small_cases, curve=curves, slots=st.integers(1, 8))
def test_decoding_holds_up_the_others_as_in_the_engine(cases, curve, slots):
    """Short enough to be decoded in one slice."""
    decode_s = 0.005
    expected = made_at(cases, CURVES[curve], slots=slots, decode_s=decode_s)
    assert modelled(cases, CURVES[curve], slots=slots, decode_s=decode_s) == pytest.approx(expected)


@settings(max_examples=40)
@given(
    cases=st.lists(
        st.builds(Asked, at=moments, steps=st.integers(1, 12), is_large=st.booleans()),
        min_size=1,
        max_size=10,
    ),
    curve=curves,
    slots=st.integers(1, 8),
)
def test_images_of_two_sizes_take_turns_as_in_the_engine(cases, curve, slots):
    expected = made_at(cases, CURVES[curve], slots=slots)
    assert modelled(cases, CURVES[curve], slots=slots) == pytest.approx(expected)


@settings(max_examples=40)
@given(
    cases=st.lists(
        st.builds(
            Asked,
            at=moments,
            steps=st.integers(1, 12),
            stop_s=st.none() | odd,
        ),
        min_size=1,
        max_size=10,
    ),
    curve=curves,
    slots=st.integers(1, 8),
)
def test_who_is_canceled_frees_its_slot_at_the_next_step(cases, curve, slots):
    expected = made_at(cases, CURVES[curve], slots=slots)
    assert modelled(cases, CURVES[curve], slots=slots) == pytest.approx(expected)


@settings(max_examples=40)
@given(
    cases=st.lists(
        st.builds(
            Asked,
            at=moments,
            steps=st.integers(1, 12),
            deadline_s=st.none() | odd,
        ),
        min_size=1,
        max_size=10,
    ),
    curve=curves,
    slots=st.integers(1, 8),
)
def test_deadlines_change_the_order_as_in_the_engine(cases, curve, slots):
    expected = made_at(cases, CURVES[curve], slots=slots)
    assert modelled(cases, CURVES[curve], slots=slots) == pytest.approx(expected)
