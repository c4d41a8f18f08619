from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import NoPlan
from core.placement import PlacedBy, Placement, PlacementQuery
from core.plan import PasmRow, Plan
from core.variant import Level
from scheduler.route import Router, candidates_of, level_of
from tests.unit.scheduler.twins import a_model

MODELS = {m.name: m for m in (a_model("base"), a_model("tiny", quality=0.6))}
BOTH = ("base", "tiny")


def a_plan(
    shares: Mapping[str, float], *, models: tuple[str, ...] = (), held: tuple[str, ...] = BOTH
) -> Plan:
    return Plan(
        version=1,
        fence=1,
        made_at=0.0,
        policy="atelier",
        assignments={f"w{i}": model for i, model in enumerate(held)},
        pasm=(PasmRow(application="default", affinity="any", models=models, shares=shares),),
    )


def ask(*models: str, exact: bool = False, rows: int = 1, application: str | None = None):
    return PlacementQuery(
        prompt="a cat", models=models, exact=exact, rows=rows, application=application
    )


def test_a_placement_names_queue_model_and_level() -> None:
    router = Router(a_plan({"base@20": 1.0}), MODELS, placed_by=PlacedBy.PLAN)
    assert router.route(ask(*BOTH)) == Placement(
        queue="gen.base",
        model="base",
        level="base@20",
        skipped_steps=20,
        affinity="any",
        placed_by=PlacedBy.PLAN,
    )


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=6),
    st.integers(1, 200),
)
def test_no_level_is_ever_more_than_one_job_ahead_of_its_share(weights: list[int], n: int) -> None:
    shares = {f"base@{k}": w / sum(weights) for k, w in enumerate(weights)}
    router = Router(a_plan(shares), MODELS)
    had: Counter[str] = Counter()
    for i in range(1, n + 1):
        had[router.route(ask(*BOTH)).level] += 1
        assert all(had[level] - i * share < 1 + 1e-9 for level, share in shares.items())
        # ... so none is further behind than there are others to be ahead of it
        assert all(i * share - had[level] < len(shares) for level, share in shares.items())


def test_shares_are_smooth_not_in_blocks() -> None:
    router = Router(a_plan({"base@0": 0.75, "tiny@0": 0.25}), MODELS)
    turns = "".join(router.route(ask(*BOTH)).model[0] for _ in range(8))
    assert turns == "bbtbbbtb"


def test_a_job_of_many_images_uses_up_as_many_turns() -> None:
    router = Router(a_plan({"base@0": 0.5, "tiny@0": 0.5}), MODELS)
    turns = [router.route(ask(*BOTH, rows=rows)).model for rows in (4, 1, 1, 1, 1, 4)]
    assert turns == ["base", "tiny", "tiny", "tiny", "tiny", "base"]


def test_turns_go_on_under_the_next_plan() -> None:
    """Else a class whose prompts are rarer than plans would only ever see one level."""
    plan = a_plan({"base@0": 0.5, "tiny@0": 0.5})
    router = Router(plan, MODELS)
    seen = []
    for version in range(6):
        seen.append(router.route(ask(*BOTH)).model)
        router.follow(replace(plan, version=version))
    assert seen == ["base", "tiny"] * 3


@given(st.lists(st.sampled_from([BOTH, ("base",), ("tiny",), ()]), max_size=30))
def test_the_same_queries_get_the_same_placements_and_the_plan_stays(
    queries: list[tuple[str, ...]],
) -> None:
    plan = a_plan({"base@0": 0.7, "tiny@0": 0.3})
    before = repr(plan)
    first, second = Router(plan, MODELS), Router(plan, MODELS)
    for models in queries:
        assert first.route(ask(*models)) == second.route(ask(*models))
    assert repr(plan) == before


def test_a_query_that_names_a_model_gets_that_model() -> None:
    router = Router(a_plan({"base@0": 0.9, "tiny@0": 0.1}), MODELS)
    assert {router.route(ask("tiny")).model for _ in range(5)} == {"tiny"}


def test_a_named_model_without_a_share_is_served_all_the_same() -> None:
    router = Router(a_plan({"base@0": 1.0}), MODELS)
    assert router.route(ask("tiny")).level == "tiny@0"


def test_the_row_for_these_very_models_goes_first() -> None:
    general = PasmRow(application="default", affinity="any", shares={"tiny@0": 1.0})
    plan = a_plan({"base@20": 1.0}, models=BOTH)
    router = Router(replace(plan, pasm=(*plan.pasm, general)), MODELS)
    assert router.route(ask("tiny", "base")).level == "base@20"
    assert router.route(ask("tiny")).level == "tiny@0"


def test_an_exact_job_runs_every_step_of_the_best_model() -> None:
    router = Router(a_plan({"base@20": 0.5, "tiny@0": 0.5}), MODELS)
    assert {router.route(ask(*BOTH, exact=True)).level for _ in range(4)} == {"base@0"}


def test_an_exact_job_is_not_given_a_lesser_model() -> None:
    router = Router(a_plan({"tiny@0": 1.0}, held=("tiny",)), MODELS)
    with pytest.raises(NoPlan, match="base"):
        router.route(ask(*BOTH, exact=True))


def test_a_model_that_nobody_holds_takes_no_job_whatever_its_share() -> None:
    router = Router(a_plan({"base@0": 0.9, "tiny@0": 0.1}, held=("tiny",)), MODELS)
    assert {router.route(ask(*BOTH)).model for _ in range(9)} == {"tiny"}


@pytest.mark.parametrize("models", [("base",), ("unheard-of",), BOTH, ()])
def test_before_any_worker_has_reported_there_is_no_plan(models: tuple[str, ...]) -> None:
    router = Router(replace(a_plan({}), assignments={}, pasm=()), MODELS)
    with pytest.raises(NoPlan):
        router.route(ask(*models))


def test_an_application_or_class_without_rows_is_served_as_the_plan_loads_its_levels() -> None:
    plan = replace(a_plan({"base@0": 1.0}), levels={"tiny@0": 3.0})
    router = Router(plan, MODELS)
    assert router.route(ask(*BOTH, application="avatars")).level == "base@0"
    assert router.route(ask(*BOTH), "hard").level == "tiny@0"


def test_candidates_are_the_known_ones_sorted() -> None:
    assert candidates_of(ask("tiny", "base", "unheard-of"), MODELS) == BOTH
    assert candidates_of(ask(), MODELS) == BOTH
    assert candidates_of(ask("tiny", "base", exact=True), MODELS) == ("base",)
    assert candidates_of(ask("unheard-of", exact=True), MODELS) == ()


def test_a_level_is_read_back_from_its_name() -> None:
    level = Level(model="a@b", skipped_steps=20)
    assert level_of(level.name) == level
