from dataclasses import replace

import pytest

from core.boards.cost import Cost
from core.boards.demand import Stream
from core.boards.fleet import QueueDepth
from core.levels.level import Level
from scheduler.allocation.allocate import allocate
from scheduler.allocation.transition import has_room
from scheduler.planning.decide import Decision, decide
from scheduler.planning.pose import RHO, gap_for, pose
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile_file import Measured
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker

BASE, TINY = a_model("base", step_s=0.1), a_model("tiny", quality=0.6, step_s=0.02)
PROFILE = a_profile(BASE, TINY)
BOTH = ("base", "tiny")


def stream(*models: str) -> Stream:
    return Stream(application="default", models=models)


def decide_(snapshot: Snapshot) -> Decision:
    return decide(snapshot, PROFILE, allocate)


def test_without_workers_the_plan_is_empty() -> None:
    decision = decide_(Snapshot(workers=(), rates={stream("base"): 1.0}))
    assert (decision.assignments, decision.pasm, decision.saturation) == ({}, (), 1.0)


def test_a_model_that_nobody_asks_for_splits_no_queue() -> None:
    workers = (a_worker("w0"), a_worker("w1"))
    decision = decide_(Snapshot(workers=workers))
    assert decision.assignments == {"w0": "base", "w1": "base"}
    assert decision.saturation == 0.0
    asked = decide_(Snapshot(workers=workers, rates={stream("base"): 1.0, stream("tiny"): 1e-3}))
    assert sorted(asked.assignments.values()) == ["base", "tiny"]


def test_who_holds_nothing_loads_the_best_model_however_long_that_takes() -> None:
    slow = a_profile(replace(BASE, load_s=60.0), TINY)
    workers = (a_worker("w0"), a_worker("w1", "tiny"))
    found = decide(Snapshot(workers=workers, previous={"w1": "tiny"}), slow, allocate)
    assert found.assignments == {"w0": "base", "w1": "tiny"}


#: Three workers hold `base`, and more than three times as much comes as they can do.
CROWDED = Snapshot(
    workers=[a_worker(f"w{i}", "base") for i in range(3)],
    rates={stream(*BOTH): 3.0},
    previous={f"w{i}": "base" for i in range(3)},
)


def test_while_workers_load_rows_are_for_those_that_serve() -> None:
    decision = decide_(CROWDED)
    assert "tiny" in decision.assignments.values()
    assert (decision.resident, decision.levels.keys()) == (("base",), {"base@0"})
    assert {level for row in decision.pasm for level in row.shares} == {"base@0"}


def test_once_a_load_ends_rows_are_for_the_workers_as_they_are_then() -> None:
    given = decide_(CROWDED).assignments
    workers = [a_worker(name, model) for name, model in given.items()]
    settled = decide_(replace(CROWDED, workers=workers, previous=given))
    assert settled.resident == ("base", "tiny")
    assert settled.levels.keys() == {"base@0", "tiny@0"}


def test_a_worker_without_room_for_both_models_serves_nobody_while_it_loads() -> None:
    """`w0` leaves `base` at once: the rows count on what stays."""
    small = replace(BASE, size_gib=3.0), replace(TINY, size_gib=3.0)
    decision = decide(CROWDED, a_profile(*small), allocate)
    moved = [name for name, model in decision.assignments.items() if model == "tiny"]
    stay = 3 - len(moved)
    assert moved and decision.levels["base@0"] == pytest.approx(0.9 * stay / 3.0)


def test_an_idle_worker_holds_the_model_of_exact_jobs_though_another_was_judged_as_good() -> None:
    judged = Measured(quality={"any": {"base@0": 0.9, "tiny@0": 0.95}})
    decision = decide(
        Snapshot(workers=(a_worker("w0"),)), replace(PROFILE, measured=judged), allocate
    )
    assert decision.assignments == {"w0": "base"}


def test_a_model_that_waits_on_its_queue_keeps_its_worker() -> None:
    depths = (QueueDepth(queue="gen.tiny", waiting=1, oldest_s=0.1),)
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"), a_worker("w1", "tiny")),
        depths=depths,
        rates={stream("base"): 9.0},
    )
    assert decide_(snapshot).assignments == {"w0": "base", "w1": "tiny"}


def test_an_idle_worker_loads_no_better_model_that_takes_longer_than_it_is_worth() -> None:
    for load_s, model in ((2.0, "base"), (3.0, "tiny")):
        profile = a_profile(replace(BASE, load_s=load_s), TINY)
        snapshot = Snapshot(workers=(a_worker("w0", "tiny"),), previous={"w0": "tiny"})
        assert decide(snapshot, profile, allocate).assignments == {"w0": model}


@pytest.mark.parametrize(("oldest_s", "model"), [(10.0, "base"), (10.1, "tiny")])
def test_one_worker_turns_to_a_lone_job_that_has_waited_too_long(
    oldest_s: float, model: str
) -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base", running=8),),
        depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=oldest_s),),
        rates={stream("base"): 9.0},
        previous={"w0": "base"},
    )
    assert decide_(snapshot).assignments == {"w0": model}


@pytest.mark.parametrize(("oldest_s", "wanted_s"), [(1.0, 12.0), (12.0, 1.0)])
def test_jobs_or_clients_have_waited_for_a_model_whichever_is_longer(
    oldest_s: float, wanted_s: float
) -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base", running=8),),
        depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=oldest_s),),
        wanted={"tiny": wanted_s},
        previous={"w0": "base"},
    )
    assert pose(snapshot, PROFILE).stranded == {"tiny"}


def test_a_model_is_waited_for_as_long_as_its_fastest_load_is_worth() -> None:
    """`tiny` loads in 0.8 s on one type of worker, so jobs wait 8 s; all else loads in 3 s."""
    loads = {"cpu": {"base": 3.0, "tiny": 3.0}, "gpu": {"base": 3.0, "tiny": 0.8}}
    workers = [a_worker(f"{t}0", "base", device_type=t, running=8) for t in loads]
    for oldest_s, is_due in ((7.0, False), (9.0, True)):
        snapshot = Snapshot(
            workers=workers,
            depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=oldest_s),),
            previous={worker.name: "base" for worker in workers},
        )
        instance = pose(snapshot, replace(PROFILE, measured=Measured(load=loads)))
        assert instance.stranded == ({"tiny"} if is_due else set())


def test_one_worker_that_has_nothing_to_do_turns_to_a_lone_job_at_once() -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"),),
        depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=0.1),),
        rates={stream("base"): 9.0},
        previous={"w0": "base"},
    )
    assert decide_(snapshot).assignments == {"w0": "tiny"}
    base_waits = (*snapshot.depths, QueueDepth(queue="gen.base", waiting=1, oldest_s=0.1))
    assert decide_(replace(snapshot, depths=base_waits)).assignments == {"w0": "base"}


def test_jobs_that_a_model_has_just_left_have_time_to_move() -> None:
    for left_s, is_named, is_due in ((2.0, False, False), (2.0, True, True), (6.0, False, True)):
        snapshot = Snapshot(
            workers=(a_worker("w0", "base"),),
            depths=(QueueDepth(queue="gen.tiny", waiting=1, oldest_s=9.0),),
            previous={"w0": "base"},
            left={"tiny": left_s},
            wanted={"tiny": 1.0} if is_named else {},
        )
        assert pose(snapshot, PROFILE).stranded == ({"tiny"} if is_due else set())


def test_of_models_that_take_turns_the_one_that_was_without_a_worker_for_longest_is_next() -> None:
    """Jobs that wait for `tiny` are older, but it had its turn a moment ago."""
    third = a_model("third", quality=0.5)
    waiting = [QueueDepth(queue=f"gen.{m}", waiting=9, oldest_s=99.0) for m in BOTH]
    snapshot = Snapshot(
        workers=(a_worker("w0", "base", running=8),),
        depths=(*waiting, QueueDepth(queue="gen.third", waiting=1, oldest_s=20.0)),
        previous={"w0": "base"},
        left={"tiny": 15.0},
    )
    decision = decide(snapshot, a_profile(BASE, TINY, third), allocate)
    assert decision.assignments == {"w0": "third"}


def test_a_model_is_given_to_workers_that_can_load_it() -> None:
    waiting = (QueueDepth(queue="gen.tiny", waiting=1, oldest_s=1.0),)
    without = replace(a_worker("w0", "base"), catalogue=("base",))
    broken = replace(a_worker("w1", "base"), refused=("tiny",))
    previous = {"w0": "base", "w1": "base", "w2": "base"}
    workers = (without, broken, a_worker("w2", "base"))
    decision = decide_(Snapshot(workers=workers, depths=waiting, previous=previous))
    assert decision.assignments["w2"] == "tiny"
    assert set(decision.loads["cpu"]) == {"base", "tiny"}
    nobody = decide_(Snapshot(workers=workers[:2], depths=waiting, previous=previous))
    assert set(nobody.assignments.values()) == set(nobody.loads["cpu"]) == {"base"}


def test_a_model_leaves_the_worker_that_cannot_load_it_for_one_that_can() -> None:
    """A load of `tiny` failed on `w1` alone, or its folder has gone there; `w2` holds `base`."""
    waiting = (QueueDepth(queue="gen.tiny", waiting=150, oldest_s=1.0),)
    broken = replace(a_worker("w1"), refused=("tiny",))
    for unable in (broken, replace(broken, models=("base",)), replace(broken, catalogue=("base",))):
        snapshot = Snapshot(
            workers=(a_worker("w0", "tiny"), unable, a_worker("w2", "base")),
            depths=waiting,
            rates={stream("base"): 0.1},
            previous={"w0": "tiny", "w1": "tiny", "w2": "base"},
        )
        assert decide_(snapshot).assignments == {"w0": "tiny", "w1": "base", "w2": "tiny"}


def test_who_cannot_load_the_best_model_holds_another() -> None:
    unable = replace(a_worker("w1"), refused=("base",))
    snapshot = Snapshot(workers=(a_worker("w0"), unable), previous={"w1": "base"})
    assert pose(snapshot, PROFILE).able == {("cpu", "base"): 1}
    assert decide_(snapshot).assignments == {"w0": "base", "w1": "tiny"}
    settling = replace(snapshot, settling={"w1": "base"})
    assert pose(settling, PROFILE).able == {}


def test_where_every_worker_can_load_everything_no_count_is_bounded() -> None:
    workers = [replace(a_worker(f"w{i}"), catalogue=(*BOTH, "other")) for i in range(2)]
    assert pose(Snapshot(workers=workers), PROFILE).able == {}


def test_a_worker_that_can_load_nothing_leaves_the_others_their_plan() -> None:
    unable = replace(a_worker("w1"), refused=BOTH)
    decision = decide_(Snapshot(workers=(a_worker("w0"), unable)))
    assert decision.assignments["w0"] == "base"


def test_nobody_waits_for_a_turn_on_a_worker_that_cannot_load_the_model() -> None:
    waiting = (QueueDepth(queue="gen.tiny", waiting=1, oldest_s=99.0),)
    unable = replace(a_worker("w0", "base"), refused=("tiny",))
    snapshot = Snapshot(
        workers=(unable, a_worker("w1")),
        depths=waiting,
        previous={"w0": "base", "w1": "base"},
        settling={"w1": "base"},
    )
    assert pose(snapshot, PROFILE).stranded == frozenset()
    assert pose(replace(snapshot, settling={}), PROFILE).stranded == {"tiny"}


def test_jobs_that_wait_are_demand_but_no_arrivals_and_get_no_row() -> None:
    depths = (QueueDepth(queue="gen.tiny", waiting=60, oldest_s=9.0),)
    decision = decide_(Snapshot(workers=(a_worker("w0", "tiny"),), depths=depths))
    assert decision.demand == {"default": 0.0}
    assert decision.levels == pytest.approx({"tiny@0": 1.0})
    assert [row.models for row in decision.pasm] == [()]


def test_a_worker_is_never_given_a_model_that_does_not_fit() -> None:
    small = a_worker("w0", memory_gib=0.01)
    assert decide_(Snapshot(workers=(small,))).assignments == {}


def test_a_worker_of_little_memory_takes_no_model_from_larger_ones_of_its_type() -> None:
    profile = a_profile(replace(BASE, size_gib=3.0), TINY)
    small = a_worker("w0", memory_gib=2.0)
    snapshot = Snapshot(workers=(small, a_worker("w1")), rates={stream("base"): 9.0})
    assert set(pose(snapshot, profile).load) == {("cpu", "base"), ("cpu", "tiny")}
    found = decide(snapshot, profile, allocate)
    assert found.assignments == {"w0": "tiny", "w1": "base"}
    assert set(found.loads["cpu"]) == set(BOTH)
    assert set(pose(Snapshot(workers=(small,)), profile).load) == {("cpu", "tiny")}


def test_what_a_worker_says_that_a_model_takes_counts_for_it_alone() -> None:
    offloading = replace(a_worker("w0", memory_gib=2.0), needs_gib={"base": 1.5, "tiny": 2.5})
    workers = (offloading, replace(a_worker("w1"), needs_gib={"base": 4.5, "tiny": 2.5}))
    snapshot = Snapshot(workers=workers, rates={stream(*BOTH): 9.0})
    assert decide_(snapshot).assignments == {"w0": "base", "w1": "tiny"}
    assert pose(snapshot, PROFILE).able == {("cpu", "base"): 1, ("cpu", "tiny"): 1}
    serving = replace(a_worker("w2", "base"), needs_gib={"base": 2.0})
    assert [has_room(serving, "tiny", {"base": 9.0, "tiny": gib}) for gib in (2.0, 2.1)] == [
        True,
        False,
    ]


def test_a_model_of_unknown_cost_is_given_work_by_those_alone_who_name_it() -> None:
    tried = Cost(steps=((1, 0.04),), fixed_s=0.1, is_measured=True)
    workers = tuple(replace(a_worker(name), untried=("tiny",)) for name in ("w0", "w1"))
    anybody = Snapshot(workers=workers, rates={stream(*BOTH): 2.0})
    unknown = decide_(anybody)
    assert set(unknown.assignments.values()) == {"base"}
    assert set(unknown.loads["cpu"]) == set(BOTH)  # whoever names it is not turned away
    named = decide_(replace(anybody, rates={stream("tiny"): 0.1, stream(*BOTH): 0.1}))
    assert sorted(named.assignments.values()) == ["base", "tiny"]
    assert set(named.levels) == {"base@0", "tiny@0"}
    profile = replace(PROFILE, seen={("cpu", "tiny"): tried})
    known = decide(anybody, profile, allocate)
    assert "tiny" in known.assignments.values()
    assert known.costs["cpu"]["tiny"] == tried
    assert not known.costs["cpu"]["base"].is_measured


def test_where_nothing_is_known_yet_any_model_is_given_work() -> None:
    workers = (replace(a_worker("w0"), untried=BOTH),)
    decision = decide_(Snapshot(workers=workers, rates={stream(*BOTH): 0.1}))
    assert decision.assignments == {"w0": "base"}
    assert decision.saturation == 0.0


def test_a_model_takes_the_memory_that_workers_say() -> None:
    profile = replace(PROFILE, needs_gib={("cpu", "base"): 5.0})
    decision = decide(Snapshot(workers=(a_worker("w0"),)), profile, allocate)
    assert set(decision.loads["cpu"]) == {"tiny"}


def test_a_model_is_given_work_where_its_cost_is_known() -> None:
    gpu = replace(a_worker("g0", device_type="gpu"), untried=("base",))
    profile = replace(PROFILE, measured=Measured(tau={"cpu": {"base@0": 3.0, "tiny@0": 1.0}}))
    decision = decide(Snapshot(workers=(gpu, a_worker("c0"))), profile, allocate)
    assert decision.assignments == {"c0": "base", "g0": "tiny"}


def test_each_device_type_gets_what_it_is_good_at() -> None:
    """The base model runs ten times as fast on one type, the tiny one equally fast on both."""
    measured = Measured(
        tau={"old": {"base@0": 10.0, "tiny@0": 1.0}, "new": {"base@0": 1.0, "tiny@0": 1.0}}
    )
    workers = (a_worker("a", device_type="old"), a_worker("b", device_type="new"))
    snapshot = Snapshot(workers=workers, rates={stream("base"): 0.5, stream("tiny"): 0.5})
    decision = decide(snapshot, replace(PROFILE, measured=measured), allocate)
    assert decision.assignments == {"a": "tiny", "b": "base"}
    assert decision.saturation == 0.0
    assert decision.costs["old"]["base"].image_s(30) == pytest.approx(10.0)


def test_a_copy_of_a_model_has_levels_and_a_profile_of_its_own() -> None:
    copy = replace(BASE, name="base-int8", size_gib=0.05, dtype="bfloat16", is_compiled=True)
    measured = Measured(
        tau={"cpu": {"base@0": 3.0, "base-int8@0": 1.0, "tiny@0": 0.6}},
        quality={"any": {"base@0": 1.0, "base-int8@0": 0.97, "tiny@0": 0.6}},
    )
    profile = replace(a_profile(BASE, TINY, copy), measured=measured)
    names = tuple(sorted(profile.models))
    busy = Snapshot(workers=(a_worker("w0"),), rates={stream(*names): 0.85})
    assert decide(busy, profile, allocate).assignments == {"w0": "base-int8"}
    calm = Snapshot(workers=(a_worker("w0"),), rates={stream(*names): 0.25})
    assert decide(calm, profile, allocate).assignments == {"w0": "base"}


def test_overload_shows_as_saturation() -> None:
    snapshot = Snapshot(workers=(a_worker("w0", "base"),), rates={stream("base"): 3.0})
    assert decide_(snapshot).saturation == pytest.approx(0.9)


def test_classes_share_the_demand_by_their_histogram() -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0", "base"),),
        rates={stream(*BOTH): 0.1},
        affinity={"default": {"easy": 0.25, "hard": 0.75}},
        classes=("easy", "hard"),
    )
    decision = decide_(snapshot)
    assert decision.affinity == pytest.approx({"easy": 0.25, "hard": 0.75})
    assert [(row.affinity, row.models) for row in decision.pasm] == [
        ("easy", BOTH),
        ("hard", BOTH),
        ("easy", ()),
        ("hard", ()),
    ]


def test_the_quality_expected_is_that_of_the_levels_used() -> None:
    served = decide_(Snapshot(workers=(a_worker("w0", "tiny"),), rates={stream("tiny"): 0.1}))
    assert served.quality == pytest.approx(0.6)
    assert decide_(Snapshot(workers=())).quality is None


def test_the_larger_a_fleet_the_wider_the_gap_it_is_solved_to() -> None:
    assert [gap_for(n) for n in (1, 16, 17, 64, 65)] == [1e-6, 1e-6, 1e-3, 1e-3, 1e-2]


def test_the_order_in_which_demand_is_told_does_not_matter() -> None:
    rates = {stream("tiny"): 1.0, stream("base"): 2.0}
    one, other = (
        pose(Snapshot(workers=(a_worker("w0"),), rates=dict(items)), PROFILE).demands
        for items in (rates.items(), reversed(rates.items()))
    )
    assert one == other and [demand.models for demand in one] == [("base",), ("tiny",)]


def test_nor_does_the_order_of_models_or_classes() -> None:
    depths = [QueueDepth(queue=f"gen.{m}", waiting=6, oldest_s=1.0) for m in BOTH]
    classes = {"easy": 0.25, "hard": 0.75}
    one, other = (
        pose(
            Snapshot(
                workers=(a_worker("w0"),),
                depths=depths,
                rates={stream("base"): 1.0},
                affinity={"default": dict(order(classes.items()))},
                classes=("easy", "hard"),
            ),
            a_profile(*order((BASE, TINY))),
        ).demands
        for order in (list, lambda items: list(reversed(items)))
    )
    assert one == other and len(one) == 4


def test_a_class_that_nobody_asks_for_is_no_demand() -> None:
    snapshot = Snapshot(
        workers=(a_worker("w0"),),
        rates={stream("base"): 1.0},
        affinity={"default": {"easy": 1.0, "hard": 0.0}},
        classes=("easy", "hard"),
    )
    (demand,) = pose(snapshot, PROFILE).demands
    assert (demand.affinity, demand.rate) == ("easy", 1.0)


def test_what_waits_is_placed_already_and_arrives_over_a_minute() -> None:
    depths = (QueueDepth(queue="gen.tiny", waiting=6, oldest_s=1.0),)
    (demand,) = pose(Snapshot(workers=(a_worker("w0"),), depths=depths), PROFILE).demands
    assert demand.is_placed and demand.is_exact
    assert (demand.models, demand.rate) == (("tiny",), pytest.approx(6 / 60.0))


def test_what_waits_is_expected_to_be_as_good_as_all_prompts() -> None:
    qualities = {"any": {"tiny@0": 0.7}, "easy": {"tiny@0": 0.9}, "hard": {"tiny@0": 0.4}}
    snapshot = Snapshot(
        workers=(a_worker("w0", "tiny"),),
        depths=(QueueDepth(queue="gen.tiny", waiting=6, oldest_s=1.0),),
        classes=("easy", "hard"),
    )
    profile = replace(PROFILE, measured=Measured(quality=qualities))
    assert decide(snapshot, profile, allocate).quality == pytest.approx(0.7)


def test_room_is_planned_for_what_may_come_on_top() -> None:
    instance = pose(Snapshot(workers=(a_worker("w0"),), margin=1.5), PROFILE)
    assert instance.rho == pytest.approx(0.6)


def test_a_model_as_large_as_the_memory_of_its_worker_fits() -> None:
    exact = a_worker("w0", memory_gib=BASE.size_gib)
    assert ("cpu", "base") in pose(Snapshot(workers=(exact,)), PROFILE).load


def test_the_demand_of_an_application_is_that_of_all_its_streams() -> None:
    gone = Stream(application="gone", models=BOTH)
    rates = {stream("base"): 0.1, stream(*BOTH): 0.2, gone: 0.25}
    assert decide_(Snapshot(workers=(a_worker("w0"),), rates=rates)).demand == {
        "default": pytest.approx(0.3),
        "gone": 0.25,  # nobody has it registered any more, and its jobs still come
    }


def test_a_cell_says_what_one_more_job_is_worth_and_it_falls_with_their_number() -> None:
    workers = [a_worker("w0", "base"), a_worker("w1", "tiny")]
    held = {"w0": "base", "w1": "tiny"}
    told = Snapshot(
        workers=workers,
        rates={stream(*BOTH): 0.1},
        previous=held,
        settling=held,
        tells_capacity=True,
    )
    curve = decide_(told).capacity
    worths = [segment.worth for segment in curve]
    assert worths == sorted(worths, reverse=True)
    assert worths[0] > PROFILE.quality("any", Level(model="tiny")) >= worths[-1] > 0
    seconds = {m: PROFILE.tau_s(Level(model=m), workers[0].device_type) for m in BOTH}
    assert sum(s.rate for s in curve) == pytest.approx(
        RHO / seconds["base"] + RHO / seconds["tiny"]
    )


def test_a_cell_that_nobody_asks_says_what_it_could_do_and_one_without_workers_nothing() -> None:
    idle = decide_(Snapshot(workers=(a_worker("w0", "base"),), tells_capacity=True))
    assert sum(segment.rate for segment in idle.capacity) > 0
    assert decide_(Snapshot(workers=(), tells_capacity=True)).capacity == ()
    assert decide_(Snapshot(workers=(a_worker("w0", "base"),))).capacity == ()
