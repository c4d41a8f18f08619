from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.application import Application
from core.boards.cost import Cost
from core.boards.fleet import QueueDepth, Worker
from core.boards.image_work import ImageWork
from core.boards.plan import Plan
from core.levels.level import Level
from core.placement import Placement, PlacementQuery, queue_of
from scheduler.placement.backlog import REPORT_AGE_S, Sent
from scheduler.placement.overflow import Overflow, PlacedQuality
from scheduler.placement.placer import NO_PLAN, Placer
from scheduler.profile.profile_file import EVERY, LevelFamily, Measured
from scheduler.routing.classify import OneClass
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker, report_to, some_terms

MODELS = {"xl": 1.0, "m": 0.9, "turbo": 0.8}
#: Seconds of a step that one and eight images share; every job takes 30 steps and is promised 6 s.
STEPS_S = {"xl": (0.1, 0.6), "m": (0.05, 0.1), "turbo": (0.01, 0.02)}
COSTS = {
    "cpu": {
        name: Cost(steps=((1, one_s), (8, eight_s)), is_measured=True)
        for name, (one_s, eight_s) in STEPS_S.items()
    }
}
PROFILE = a_profile(*(a_model(name, quality=quality) for name, quality in MODELS.items()))
QUERY = PlacementQuery(prompt="a cat", models=tuple(MODELS), slo_s=6.0)
PLANNED = Placement(queue="gen.xl", model="xl", level="xl@0")


def a_plan(*resident: str) -> Plan:
    held = {f"w{i}": name for i, name in enumerate(MODELS)}
    return replace(
        NO_PLAN, version=1, assignments=held, resident=resident or tuple(MODELS), costs=COSTS
    )


def a_fleet(**running: int) -> list[Worker]:
    return [a_worker(f"w{i}", m, running=running.get(m, 0)) for i, m in enumerate(MODELS)]


def an_overflow(
    waiting: Mapping[str, int] | None = None, *, at: float = 0.0, **running: int
) -> Overflow:
    overflow = Overflow(PROFILE)
    depths = [
        QueueDepth(queue=queue_of(model), waiting=count, oldest_s=0.0)
        for model, count in (waiting or {}).items()
    ]
    report_to(overflow.backlog, a_fleet(**running), depths, at)
    return overflow


def relieve(
    overflow: Overflow,
    placement: Placement,
    query: PlacementQuery,
    plan: Plan,
    application: Application | None = None,
) -> Placement:
    """Ask as a placer does: only for a job that is foreseen to be late."""
    late_s = overflow.backlog.late_s(placement.at, query, plan)
    if late_s is None or late_s <= 0:
        return placement
    return overflow.relieve(placement, late_s, query, plan, application)


def a_placer(overflow: Overflow, plan: Plan) -> Placer:
    """Give a placer whose plan has every job on one model."""
    placer = Placer({name: a_model(name) for name in MODELS}, OneClass(), overflow=overflow)
    placer.follow(replace(plan, levels={PLANNED.level: 1.0}))
    return placer


def placed(overflow: Overflow, query: PlacementQuery, plan: Plan) -> Placement:
    (answer,) = a_placer(overflow, plan).place([query], 0.0)
    assert isinstance(answer, Placement)
    return answer


def test_a_job_in_time_stays_where_the_plan_has_it() -> None:
    assert placed(an_overflow(xl=1), QUERY, a_plan()) == PLANNED


def test_a_job_that_would_be_late_there_goes_elsewhere() -> None:
    assert placed(an_overflow(xl=8), QUERY, a_plan()).model == "m"


@pytest.mark.parametrize("is_just", [True, False])
def test_a_job_that_is_late_by_nothing_at_all_is_in_time(is_just: bool) -> None:
    overflow, plan = an_overflow(xl=8), a_plan()
    late_s = overflow.backlog.late_s(PLANNED.at, replace(QUERY, slo_s=24.0), plan)
    assert late_s is not None
    query = replace(QUERY, slo_s=24.0 + late_s * 1.25 + (0.01 if is_just else -0.01))
    assert (placed(overflow, query, plan).model == "xl") is is_just


@pytest.mark.parametrize(("slo_s", "model"), [(25.0, "xl"), (24.0, "m")])
def test_a_job_that_would_be_late_by_half_a_second_goes_elsewhere(slo_s: float, model: str) -> None:
    query = replace(QUERY, slo_s=slo_s)
    assert relieve(an_overflow(xl=8), PLANNED, query, a_plan()).model == model


def test_a_job_that_would_be_late_goes_to_the_best_model_in_time() -> None:
    best = relieve(an_overflow(xl=8), PLANNED, QUERY, a_plan())
    assert (best.queue, best.model, best.level) == ("gen.m", "m", "m@0")
    best = relieve(an_overflow(xl=8, m=8, waiting={"m": 40}), PLANNED, QUERY, a_plan())
    assert best.model == "turbo"


def test_a_better_model_in_time_is_chosen_however_little_there_is_to_spare() -> None:
    hurried = replace(QUERY, slo_s=2.0)  # the better one takes 1.5 s of it, the other 0.3 s
    assert relieve(an_overflow(xl=8), PLANNED, hurried, a_plan()).model == "m"


def test_a_model_as_good_as_the_floor_of_its_application_will_do() -> None:
    shop = Application(name="shop", tenant="t", models=tuple(MODELS), quality_floor=MODELS["m"])
    assert relieve(an_overflow(xl=8), PLANNED, QUERY, a_plan(), shop).model == "m"


def test_fewer_steps_of_the_planned_model_are_a_way_out() -> None:
    """Where nobody else is there, and its own queue is long: whoever comes after is done sooner."""
    may_skip = replace(QUERY, slo_s=20.0, tenant="shop", terms=(some_terms("xl"),))
    alone = replace(a_plan("xl"), usable=("xl@0", "xl@25"))
    overflow = an_overflow(xl=8)
    assert relieve(overflow, PLANNED, may_skip, alone).level == "xl@25"
    assert relieve(overflow, PLANNED, QUERY, alone) is PLANNED, "it may start from nothing"
    shorter = replace(PLANNED, level="xl@25", skipped_steps=25)
    assert relieve(overflow, shorter, may_skip, alone) is shorter, "which is in time"


def test_what_is_best_for_its_class_is_chosen_not_what_is_best_for_all() -> None:
    """As plans do: a profile by classes says more of levels that leave out steps."""
    quality = {"any": {"m@0": 0.9, "turbo@0": 0.8}, "simple": {"m@0": 0.7, "turbo@0": 1.0}}
    rows = LevelFamily(levels=("m@0", "turbo@0"), shares={"simple": 1.0}, quality=quality)
    overflow = Overflow(replace(PROFILE, measured=Measured(families={EVERY: rows})))
    report_to(overflow.backlog, a_fleet(xl=8))
    simple = replace(PLANNED, affinity="simple")
    plan = replace(a_plan(), usable=("xl@0", "xl@25"))
    assert relieve(overflow, simple, QUERY, plan).model == "turbo"
    assert relieve(overflow, PLANNED, QUERY, plan).model == "m"
    assert relieve(overflow, simple, QUERY, a_plan()).model == "m", "classes are not those of it"


def test_what_is_placed_is_counted_once_by_the_quality_of_its_level() -> None:
    overflow = an_overflow(xl=8)
    placed(overflow, QUERY, a_plan())
    assert overflow.tally(a_plan()) == PlacedQuality(1, MODELS["m"])
    placed(overflow, replace(QUERY, slo_s=None), a_plan())
    assert overflow.tally(a_plan()) == PlacedQuality(2, MODELS["m"] + MODELS["xl"])
    placed(overflow, replace(QUERY, is_again=True), a_plan())
    assert overflow.tally(a_plan()).jobs == 2


def test_who_counts_hears_from_which_model_to_which_a_job_went() -> None:
    heard: list[tuple[str, str]] = []
    overflow = Overflow(PROFILE, on_overflow=lambda old, new: heard.append((old, new)))
    report_to(overflow.backlog, a_fleet())
    relieve(overflow, PLANNED, QUERY, a_plan())
    assert heard == []
    report_to(overflow.backlog, a_fleet(xl=8))
    relieve(overflow, PLANNED, QUERY, a_plan())
    assert heard == [("xl", "m")]


def test_it_may_be_a_better_one_than_was_planned() -> None:
    planned = Placement(queue="gen.turbo", model="turbo", level="turbo@0")
    overflow = an_overflow({"turbo": 1000}, turbo=8)
    assert relieve(overflow, planned, QUERY, a_plan()).model == "xl"


def test_where_all_are_late_it_is_the_one_that_is_done_first() -> None:
    overflow = an_overflow(dict.fromkeys(MODELS, 1000), xl=8, m=8, turbo=8)
    assert relieve(overflow, PLANNED, QUERY, a_plan()).model == "turbo"


def test_of_models_as_good_as_each_other_the_first_by_name_is_taken() -> None:
    as_good = a_profile(*(a_model(name, quality=0.9) for name in MODELS))
    overflow = Overflow(as_good)
    report_to(overflow.backlog, a_fleet(xl=8))
    assert relieve(overflow, PLANNED, QUERY, a_plan()).model == "m"


def test_a_late_job_stays_where_it_is_while_it_would_be_later_elsewhere() -> None:
    planned = Placement(queue="gen.turbo", model="turbo", level="turbo@0")
    overflow = an_overflow({"turbo": 1000, "xl": 5000, "m": 5000}, xl=8, m=8, turbo=8)
    assert relieve(overflow, planned, QUERY, a_plan()) is planned


def test_jobs_that_may_start_elsewhere_skip_steps_as_the_plan_does() -> None:
    plan = replace(a_plan("xl", "m"), levels={"m@25": 1.0})
    may_skip = replace(QUERY, tenant="shop", terms=(some_terms("m"),))
    levels = [
        relieve(an_overflow({"m": 14}, xl=8, m=8), PLANNED, query, plan).level
        for query in (QUERY, may_skip)
    ]
    assert levels == ["m@0", "m@25"]


def test_what_was_sent_since_the_report_counts() -> None:
    overflow = an_overflow()
    models = []
    for _ in range(8):
        found = relieve(overflow, PLANNED, QUERY, a_plan())
        work = overflow.backlog.work_of(Level.read(found.level), QUERY)
        sent = Sent(at=0.0, queue=found.queue, work=work, is_batch=False)
        overflow.backlog.send(sent, a_plan())
        models.append(found.model)
    assert models[0] == "xl"
    assert set(models) == {"xl", "m"}
    assert models == sorted(models, reverse=True)  # once there is no more room it stays so
    report_to(overflow.backlog, a_fleet(), now=REPORT_AGE_S + 0.1)
    assert relieve(overflow, PLANNED, QUERY, a_plan()).model == "xl"


@pytest.mark.parametrize(
    "query",
    [
        replace(QUERY, exact=True),
        replace(QUERY, slo_s=None),
        replace(QUERY, models=("xl",)),
        replace(QUERY, works=(ImageWork(job="j", model="xl", steps=1, rows=2, pixels=1),)),
    ],
)
def test_some_jobs_stay_whatever_happens(query: PlacementQuery) -> None:
    assert placed(an_overflow({"xl": 1000}, xl=8), query, a_plan()) == PLANNED


def test_models_that_are_loading_or_unmeasured_or_below_the_floor_are_no_way_out() -> None:
    overflow = an_overflow({"xl": 1000}, xl=8)
    assert relieve(overflow, PLANNED, QUERY, a_plan("xl", "turbo")).model == "turbo"
    unmeasured = replace(a_plan(), costs={})
    assert relieve(overflow, PLANNED, QUERY, unmeasured) is PLANNED
    shop = Application(name="shop", tenant="t", models=tuple(MODELS), quality_floor=0.95)
    assert relieve(overflow, PLANNED, QUERY, a_plan(), shop) is PLANNED


@given(
    running=st.fixed_dictionaries({m: st.integers(0, 8) for m in MODELS}),
    waiting=st.fixed_dictionaries({m: st.integers(0, 30) for m in MODELS}),
    planned=st.sampled_from(sorted(MODELS)),
)
def test_nobody_is_later_than_the_plan_would_have_had_it(
    running: dict[str, int], waiting: dict[str, int], planned: str
) -> None:
    overflow, plan = an_overflow(waiting, **running), a_plan()
    placement = Placement(queue=queue_of(planned), model=planned, level=f"{planned}@0")
    found = relieve(overflow, placement, QUERY, plan)
    fresh = an_overflow(waiting, **running)  # without what was just sent
    before, after = (
        fresh.backlog.late_s(Level.read(each.level), QUERY, plan) for each in (placement, found)
    )
    assert before is not None
    assert after is not None
    assert after <= max(0.0, before)
