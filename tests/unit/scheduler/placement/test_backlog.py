"""What is known of queues: what is reported, and what was sent there since."""

import math
from dataclasses import replace

import pytest

from core.boards.cost import Cost
from core.boards.fleet import FleetChange, QueueDepth
from core.boards.plan import Usual
from core.levels.level import Level
from core.placement import PlacementQuery
from scheduler.placement.backlog import LATELY_S, REPORT_AGE_S, WEIGHT, Backlog, Sent
from scheduler.placement.placer import NO_PLAN
from scheduler.routing.stations import Work
from tests.unit.scheduler.fakes import a_model, a_worker, report_to

MODELS = {"base": a_model("base"), "tiny": a_model("tiny")}
COSTS = {
    "cpu": {
        "base": Cost(steps=((1, 0.1), (8, 0.4)), is_measured=True),
        "tiny": Cost(steps=((1, 0.01), (8, 0.01)), is_measured=True),
    }
}
PLAN = replace(
    NO_PLAN,
    version=1,
    assignments={"w0": "base", "w1": "tiny"},
    resident=("base", "tiny"),
    costs=COSTS,
    loads={"cpu": {"base": 5.0, "tiny": 5.0}},
)
QUERY = PlacementQuery(prompt="x", models=("base",))


def a_backlog(*depths: QueueDepth) -> Backlog:
    backlog = Backlog(MODELS)
    report_to(backlog, [a_worker("w0", "base"), a_worker("w1", "tiny")], depths)
    return backlog


def room(backlog: Backlog, most: int, tenant: str | None = None) -> float:
    """Images of a tenant that may come beside one more job."""
    before = backlog.before("gen.base", replace(QUERY, tenant=tenant), most + 1, PLAN, 0.0)
    assert before is not None
    return before.left


def sent(at: float, *, queue: str = "gen.base", steps: float = 30.0, images: int = 1) -> Sent:
    return Sent(at=at, queue=queue, work=Work(steps=steps, images=images), is_batch=False)


def depth(waiting: int, **changes: object) -> QueueDepth:
    known = QueueDepth(queue="gen.base", waiting=waiting, oldest_s=0.0)
    return replace(known, **changes)  # type: ignore[arg-type]


def test_what_was_sent_counts_until_a_report_must_tell_of_it() -> None:
    backlog = a_backlog()
    for at in (0.0, 0.5, 1.0):
        backlog.send(sent(at), PLAN)
    assert backlog.ahead("gen.base") == 3
    backlog.measure([], REPORT_AGE_S)
    assert backlog.ahead("gen.base") == 3, "a report may be as old as that"
    backlog.measure([], REPORT_AGE_S + 0.25)
    assert backlog.ahead("gen.base") == 2
    backlog.measure([depth(1)], REPORT_AGE_S + 0.75)
    assert backlog.ahead("gen.base") == 1 + 1


def test_queues_on_which_nothing_is_any_more_are_forgotten() -> None:
    backlog = a_backlog(depth(2))
    for number in range(3):  # own queues of workers, which come and go
        backlog.send(sent(0.0, queue=f"gen.base.w{number}"), NO_PLAN)
    backlog.measure([depth(2)], 0.5 * REPORT_AGE_S)
    assert len(backlog._lines) == 4
    backlog.measure([depth(2)], 2 * REPORT_AGE_S)
    backlog.measure([depth(2)], 2 * REPORT_AGE_S)
    assert list(backlog._lines) == ["gen.base"]


def test_a_brief_job_counts_until_it_is_expected_to_be_done() -> None:
    backlog = a_backlog()
    for at in (0.3, 0.0, 0.1):  # a few steps of 10 ms
        backlog.send(sent(at, queue="gen.tiny", steps=5.0), PLAN)
    counted = []
    for now in (0.04, 0.05, 0.16, 0.36):
        backlog.pass_to(now)
        counted.append(backlog.ahead("gen.tiny"))
    assert counted == [3, 2, 1, 0]
    backlog.send(sent(1.0, queue="gen.tiny", steps=5.0), PLAN)
    backlog.measure([], 1.1)
    assert backlog.ahead("gen.tiny") == 0


def test_jobs_are_like_those_sent_lately_and_those_that_wait_have_as_many_images() -> None:
    backlog = a_backlog(depth(4, later=1))
    assert backlog.ahead("gen.base") == 3
    backlog.send(sent(0.0, steps=20.0, images=2), PLAN)
    assert backlog.usual == {"base": Usual(steps=20.0, images=2.0)}
    assert backlog.ahead("gen.base") == 3 * 2 + 2
    assert backlog.ahead("gen.base", is_batch=True) == 4 * 2 + 2
    assert room(backlog, 10) == (10 - 4) * 2 - 2
    backlog.send(sent(0.0, steps=40.0, images=4), PLAN)
    assert backlog.usual == {"base": Usual(steps=20 + WEIGHT * 20, images=2 + WEIGHT * 2)}


def test_jobs_of_late_weigh_more_than_those_before() -> None:
    backlog = a_backlog()
    for at in (0.0, LATELY_S):
        backlog.send(sent(at), PLAN)
    usual = backlog.usual["base"]
    assert backlog.weighed(LATELY_S) == {"base": (round(1 + math.exp(-1), 3), usual)}
    assert backlog.weighed(20 * LATELY_S) == {"base": (0.0, usual)}


def test_a_queue_of_several_tenants_has_a_share_of_its_places_for_each() -> None:
    backlog = a_backlog(depth(9, tenants={"a": 8, "b": 1}))
    backlog.send(sent(0.0, images=2), PLAN)
    assert room(backlog, 9, "a") == (9 - 9) * 2 - 2
    assert room(backlog, 9, "b") == 9 * 2 / 3 - 2
    assert room(backlog, 9, "new") == 9 * 2 / 4


@pytest.mark.parametrize(("share", "steps"), [(1.0, 30), (0.5, 15)])
def test_the_work_of_a_job_is_the_steps_that_its_level_and_its_share_leave(
    share: float, steps: int
) -> None:
    backlog = a_backlog()
    for _ in range(2):
        work = backlog.work_of(Level(model="base"), replace(QUERY, share=share, rows=3))
        assert work == Work(steps=steps, images=3)
    half = backlog.work_of(Level.read("base@25"), replace(QUERY, share=share, steps=20))
    assert half == Work(steps=10 * share)


def test_what_changes_of_the_workers_is_known_at_once_and_who_will_serve_until_the_next_look() -> (
    None
):
    backlog = a_backlog()
    backlog.hear(FleetChange(workers=[a_worker("w0", "base", running=3)], gone=["w1"]), 0.0)
    served = backlog.before("gen.base", QUERY, 10, PLAN, 0.0)
    assert served is not None and served.present == 3
    coming = backlog.foreseen("gen.tiny", PLAN, 0.0)
    assert coming is not None and coming.ready_s > 0.0
    backlog.hear(FleetChange(gone=["w0"]), 0.0)
    assert backlog.foreseen("gen.tiny", PLAN, 0.0) is coming
    backlog.measure([], 0.0)
    assert backlog.foreseen("gen.tiny", PLAN, 0.0) is None
    assert backlog.before("gen.tiny", QUERY, 10, PLAN, 0.0) is None


def test_a_station_is_of_jobs_as_they_come_there() -> None:
    backlog = a_backlog()
    backlog.send(sent(0.0, steps=20.0), PLAN)
    first = backlog.foreseen("gen.base", PLAN, 0.0)
    assert first is not None and first.mean_steps == 20.0
    backlog.send(sent(0.0, steps=21.0), PLAN)
    assert backlog.foreseen("gen.base", PLAN, 0.0) is first, "which are alike"
    for _ in range(20):
        backlog.send(sent(0.0, steps=40.0), PLAN)
    later = backlog.foreseen("gen.base", PLAN, 0.0)
    assert later is not None and later.mean_steps == backlog.usual["base"].steps > 25.0


@pytest.mark.parametrize("queue", ["gen.base", "gen.tiny"])
def test_a_clock_that_is_turned_back_leaves_nothing_behind(queue: str) -> None:
    backlog = a_backlog()
    backlog.send(sent(1000.0, queue=queue, steps=5.0), PLAN)
    backlog.measure([], 400.0)
    for number in range(10):
        backlog.send(sent(400.0 + number, queue=queue, steps=5.0), PLAN)
        backlog.pass_to(400.0 + number)
    backlog.measure([], 420.0)
    assert backlog.ahead(queue) == 0
