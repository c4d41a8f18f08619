from dataclasses import replace

import pytest

from core.demand import Stream
from core.errors import NoPlan
from core.placement import PlacementQuery
from scheduler.classify import OneClass
from scheduler.placer import NO_PLAN, Placer
from tests.unit.scheduler.twins import a_model

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


def test_a_job_that_cannot_be_placed_is_demand_for_its_model() -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("tiny",))], 0.0)
    assert placer.wanted == {"tiny"}
    assert list(placer.rates(1.0)) == [Stream(application="default", models=("tiny",))]
    placer.follow(replace(PLAN, assignments={"w0": "tiny"}))
    assert placer.wanted == set()


def test_an_exact_job_is_demand_for_the_best_model() -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("base", "tiny"), exact=True)], 0.0)
    (stream,) = placer.rates(1.0)
    assert (stream.models, stream.is_exact) == (("base",), True)


@pytest.mark.parametrize(("rows", "steps", "work"), [(1, None, 1), (4, 15, 2), (1, 60, 2)])
def test_work_is_counted_in_images_of_default_steps(
    rows: int, steps: int | None, work: float
) -> None:
    placer = a_placer()
    placer.place([PlacementQuery(prompt="x", models=("base",), rows=rows, steps=steps)], 0.0)
    assert placer.arrivals.arrived == {"default": work}


def test_a_model_or_application_unheard_of_leaves_no_trace() -> None:
    placer = a_placer()
    queries = [
        PlacementQuery(prompt="x", models=("unheard-of",)),
        PlacementQuery(prompt="x", models=("base",), application="unheard-of"),
    ]
    placer.place(queries, 0.0)
    assert {stream.application for stream in placer.rates(1.0)} == {"default"}
    assert placer.wanted == set()
