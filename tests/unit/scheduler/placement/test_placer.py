from dataclasses import replace

import pytest

from core.application import Application
from core.boards.cost import Cost
from core.boards.demand import AskedJob
from core.boards.fleet import FleetChange
from core.boards.image_work import ImageWork
from core.errors import NoPlan, TooManyRequests
from core.placement import Placement, PlacementQuery
from scheduler.demand.wanted import PATIENCE_S
from scheduler.placement.admission import AdmissionControl
from scheduler.placement.dispatch import Dispatcher
from scheduler.placement.overflow import Overflow
from scheduler.placement.placer import NO_PLAN, Placer
from scheduler.placement.step_cost import StepCosts
from scheduler.placement.worker_batches import Batches
from scheduler.routing.classify import OneClass
from tests.unit.scheduler.fakes import a_model, a_profile, a_query, a_worker, report_to

MODELS = {"base": a_model("base"), "tiny": a_model("tiny", quality=0.6)}
PLAN = replace(NO_PLAN, version=1, assignments={"w0": "base"}, levels={"base@0": 1.0})


def a_placer() -> Placer:
    placer = Placer(MODELS, OneClass())
    placer.follow(PLAN)
    return placer


def test_one_bad_item_of_a_batch_spoils_no_other() -> None:
    queries = [PlacementQuery(prompt="x", models=(m,)) for m in ("base", "tiny", "base")]
    answers = a_placer().place(queries, 0.0)
    assert [isinstance(answer, NoPlan) for answer in answers] == [False, True, False]


def test_an_edit_goes_to_the_worker_that_it_was_sent_to_and_other_jobs_to_any() -> None:
    batches = Batches(lambda model, device: StepCosts(start_s=0, row_s=1, pixels=1), stale_s=9.0)
    worker = a_worker("w@h", "base")
    worker = replace(worker, queues=("gen.base", "gen.base@w@h"))
    batches.hear(FleetChange(workers=[worker]), 0.0)
    placer = Placer(MODELS, OneClass(), dispatcher=Dispatcher(batches))
    placer.follow(PLAN)
    work = ImageWork(job="j", model="base", steps=4, rows=2, pixels=1, masked=0.1, recording="r")
    image = PlacementQuery(prompt="x", models=("base",))
    edit = replace(image, works=(work,))
    queues = [answer.queue for answer in placer.place([image, edit], 0.0)]  # type: ignore[union-attr]
    assert queues == ["gen.base", "gen.base@w@h"]


def test_an_edit_that_is_placed_again_is_not_counted_twice() -> None:
    """It may go where it was sent: what it takes there is taken back first."""
    batches = Batches(lambda model, device: StepCosts(start_s=0, row_s=1, pixels=1), stale_s=9.0)
    names = ("w0@h", "w1@h")
    fleet = [replace(a_worker(n, "base"), queues=("gen.base", f"gen.base@{n}")) for n in names]
    batches.hear(FleetChange(workers=fleet), 0.0)
    placer = Placer(MODELS, OneClass(), dispatcher=Dispatcher(batches))
    placer.follow(PLAN)
    queues = []
    for job, is_again in (("a", False), ("b", False), ("a", True), ("c", False), ("c", True)):
        work = ImageWork(job=job, model="base", steps=4, rows=2, pixels=1)
        query = PlacementQuery(prompt="x", models=("base",), works=(work,), is_again=is_again)
        (answer,) = placer.place([query], 0.0)
        assert isinstance(answer, Placement)
        queues.append(answer.queue)
    sent = [len(batch.sent) for batch in batches._batches.values()]
    assert sorted(sent) == [1, 2], queues


def test_a_placer_that_knows_queues_knows_what_jobs_are_like_and_what_is_promised() -> None:
    cost = {"cpu": {m: Cost(steps=((1, 0.1), (8, 0.8)), is_measured=True) for m in MODELS}}
    workers = [a_worker("w0", "base", running=8), a_worker("w1", "tiny")]
    plan = replace(
        PLAN, assignments={"w0": "base", "w1": "tiny"}, resident=("base", "tiny"), costs=cost
    )
    overflow = Overflow(a_profile(*MODELS.values()))
    report_to(overflow.backlog, workers)
    placer = Placer(MODELS, OneClass(), overflow=overflow)
    placer.follow(plan)
    picky = Application(name="shop", tenant="t", models=("base", "tiny"), quality_floor=0.9)
    placer.applications = {picky.key: picky}
    query = PlacementQuery(prompt="x", models=("base", "tiny"), slo_s=6.0)
    [own, other] = placer.place([replace(query, application=picky.key), query], 0.0)
    assert isinstance(own, Placement) and isinstance(other, Placement)
    assert (own.model, other.model) == ("base", "tiny"), "which is below the floor of the first"
    assert placer.asked(0.0).usual == {m: (1.0, u) for m, u in overflow.backlog.usual.items()} != {}
    better = a_profile(*MODELS.values(), a_model("new"))
    placer.expect(better)
    assert overflow.profile is better


def test_a_placer_that_knows_no_queues_expects_nothing_of_jobs() -> None:
    placer = a_placer()
    placer.expect(a_profile(*MODELS.values()))
    assert placer.asked(0.0).usual == {}


def test_a_job_is_demand_of_the_application_that_it_names() -> None:
    placer = a_placer()
    shop = Application(name="shop", tenant="t", models=("base",))
    placer.applications = {shop.key: shop}
    placer.place([PlacementQuery(prompt="x", models=("base",), application=shop.key)], 0.0)
    assert placer.arrivals.arrived == {shop.key: 1.0}


def test_work_that_several_models_could_do_is_counted_in_steps_of_the_last_by_name() -> None:
    models = MODELS | {"tiny": replace(MODELS["tiny"], default_steps=10)}
    placer = Placer(models, OneClass())
    placer.place([PlacementQuery(prompt="x", models=("base", "tiny"), steps=20)], 0.0)
    assert placer.arrivals.arrived == {"default": 2.0}


def test_without_a_dispatcher_an_edit_goes_to_any_worker_with_its_model() -> None:
    work = ImageWork(job="j", model="base", steps=4, rows=2, pixels=1, masked=0.1, recording="r")
    edit = PlacementQuery(prompt="x", models=("base",), works=(work,))
    [placed] = a_placer().place([edit], 0.0)
    assert isinstance(placed, Placement) and placed.queue == "gen.base"


def test_what_is_placed_again_is_no_new_demand() -> None:
    placer = a_placer()
    again = PlacementQuery(prompt="x", models=("base",), is_again=True)
    [placed] = placer.place([again], 0.0)
    assert not isinstance(placed, NoPlan)
    assert placer.arrivals.rates(1.0) == {}


@pytest.mark.parametrize("is_counted", [True, False])
def test_what_a_limit_is_to_refuse_is_placed_and_is_nobodys_demand(is_counted: bool) -> None:
    overflow = Overflow(a_profile(*MODELS.values()))
    report_to(overflow.backlog, [a_worker("w0", "base")])
    placer = Placer(MODELS, OneClass(), overflow=overflow)
    placer.follow(PLAN)
    query = PlacementQuery(prompt="x", models=("base",), slo_s=6.0, is_counted=is_counted)
    [placed] = placer.place([query], 0.0)
    assert isinstance(placed, Placement) and placed.queue == "gen.base"
    assert placer.arrivals.arrived == ({"default": 1.0} if is_counted else {})
    assert overflow.backlog.ahead("gen.base") == is_counted
    assert placer.placed.jobs == is_counted


def test_what_a_limit_is_to_refuse_is_admitted_as_any_job_is() -> None:
    overflow = Overflow(a_profile(*MODELS.values()))
    report_to(overflow.backlog, [a_worker("w0", "base", running=100)])
    admission = AdmissionControl(max_queue=1)
    placer = Placer(MODELS, OneClass(), overflow=overflow, admission=admission)
    placer.follow(PLAN)
    counted = PlacementQuery(prompt="x", models=("base",))
    limited = replace(counted, is_counted=False)
    answers = placer.place([limited, limited, counted, limited], 0.0)
    is_refused = [isinstance(answer, TooManyRequests) for answer in answers]
    assert is_refused == [False, False, False, True]


def test_a_job_that_cannot_be_placed_is_demand_for_its_model() -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("tiny",))], 0.0)
    assert set(placer.wanted) == {"tiny"}
    assert [stream.models for stream in placer.arrivals.rates(1.0)] == [("tiny",)]
    placer.follow(replace(PLAN, assignments={"w0": "tiny"}))
    assert not placer.wanted


def test_an_exact_job_is_demand_for_the_best_model() -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("base", "tiny"), exact=True)], 0.0)
    (stream,) = placer.arrivals.rates(1.0)
    assert (stream.models, stream.is_exact) == (("base",), True)


@pytest.mark.parametrize(("rows", "steps", "work"), [(1, None, 1), (4, 15, 2), (1, 60, 2)])
def test_work_is_counted_in_images_of_default_steps(
    rows: int, steps: int | None, work: float
) -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("base",), rows=rows, steps=steps)], 0.0)
    assert placer.arrivals.arrived == {"default": work}


def test_how_large_jobs_are_and_what_they_are_promised_is_told_with_the_demand() -> None:
    placer = a_placer()
    query = PlacementQuery(prompt="x", models=("base",), rows=4, share=0.5)
    placer.place([replace(query, slo_s=6.0), query], 0.0)
    assert placer.asked(1.0).jobs == {"default base": (AskedJob(images=4, promised_s=6.0),)}
    assert placer.arrivals.arrived == {"default": 2 * 4 * 0.5}


def test_jobs_that_name_a_model_are_told_apart_for_their_promise_is_their_own() -> None:
    placer = a_placer()
    free = PlacementQuery(prompt="x", models=("base", "tiny"), slo_s=6.0)
    named = PlacementQuery(prompt="x", models=("tiny",), slo_s=0.5)
    placer.place([free, named, named], 0.0)
    assert placer.asked(1.0).jobs == {
        "default": (AskedJob(images=1, promised_s=6.0),),
        "default tiny": (AskedJob(images=1, promised_s=0.5),) * 2,
    }


def test_a_model_that_is_gone_is_neither_placed_nor_wanted() -> None:
    models = dict(MODELS)
    placer = Placer(models, OneClass())
    placer.follow(PLAN)
    query = PlacementQuery(prompt="x", models=("tiny",))
    placer.place([query, replace(query, models=("base",))], 0.0)
    placer.forget_models()
    assert set(placer.wanted) == {"tiny"}
    del models["tiny"]
    placer.forget_models()
    assert not placer.wanted
    assert placer.place([query], 0.0)
    assert not placer.wanted, "it is not looked up in what was known before"


def test_a_model_or_application_unheard_of_leaves_no_trace() -> None:
    placer = a_placer()
    queries = [
        PlacementQuery(prompt="x", models=("unheard-of",)),
        PlacementQuery(prompt="x", models=("base",), application="unheard-of"),
    ]
    placer.place(queries, 0.0)
    assert {stream.application for stream in placer.arrivals.rates(1.0)} == {"default"}
    assert not placer.wanted


def test_a_model_refused_for_long_counts_until_its_clients_have_given_up() -> None:
    placer = a_placer()
    query = PlacementQuery(prompt="x", models=("tiny",))
    placer.place([query], 100.0)
    placer.place([query], 104.0)
    assert placer.asked(105.0).wanted == {"tiny": 5.0}
    assert placer.asked(104.0 + PATIENCE_S).wanted == {"tiny": 4.0 + PATIENCE_S}
    assert placer.asked(104.0 + PATIENCE_S + 1).wanted == {}


def test_jobs_that_cannot_start_from_latents_are_a_demand_of_their_own() -> None:
    placer = a_placer()
    edit = replace(a_query("x", "base", "tiny"), terms=())
    exact = a_query("x", "base", "tiny", exact=True)
    placer.place([a_query("x", "base", "tiny"), edit, exact], 100.0)
    streams = {(s.models, s.is_full, s.is_exact) for s in placer.arrivals.rates(100.0)}
    both = ("base", "tiny")
    assert streams == {(both, False, False), (both, True, False), (("base",), False, True)}
