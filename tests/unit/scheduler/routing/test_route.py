from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.boards.plan import PasmRow, Plan
from core.errors import NoPlan
from core.levels.approximation import skipping
from core.levels.level import Level
from core.placement import PlacedBy, Placement, PlacementQuery
from scheduler.routing.route import Router, best_model, candidates_of
from tests.unit.scheduler.fakes import a_model, some_terms

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


def ask(
    *models: str,
    exact: bool = False,
    rows: int = 1,
    application: str | None = None,
    resumes: bool = True,
) -> PlacementQuery:
    return PlacementQuery(
        prompt="a cat",
        models=models,
        exact=exact,
        rows=rows,
        application=application,
        tenant="shop",
        terms=(some_terms(),) if resumes else (),
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


weights = st.lists(st.integers(1, 100), min_size=1, max_size=6)


def shares_of(weights: list[int]) -> dict[str, float]:
    return {f"base@{k}": w / sum(weights) for k, w in enumerate(weights)}


@given(weights, st.integers(1, 200))
def test_every_level_is_always_less_than_one_job_from_its_share(weights: list[int], n: int) -> None:
    shares = shares_of(weights)
    router = Router(a_plan(shares), MODELS)
    had: Counter[str] = Counter()
    for i in range(1, n + 1):
        had[router.route(ask(*BOTH)).level] += 1
        assert all(abs(had[level] - i * share) < 1 + 1e-9 for level, share in shares.items())


@given(weights, st.integers(0, 100), st.integers(1, 100))
def test_in_any_stretch_of_jobs_a_level_is_less_than_two_jobs_from_its_share(
    weights: list[int], before: int, n: int
) -> None:
    """One at each end: no order of more than two shares does with one in every stretch."""
    shares = shares_of(weights)
    router = Router(a_plan(shares), MODELS)
    levels = [router.route(ask(*BOTH)).level for _ in range(before + n)]
    had = Counter(levels[before:])
    assert all(abs(had[level] - n * share) < 2 for level, share in shares.items())


@given(weights, st.lists(st.integers(1, 8), max_size=60))
def test_jobs_of_many_images_are_ahead_by_less_than_one_such_job(
    weights: list[int], jobs: list[int]
) -> None:
    shares = shares_of(weights)
    router = Router(a_plan(shares), MODELS)
    had: Counter[str] = Counter()
    for i, rows in enumerate(jobs, 1):
        had[router.route(ask(*BOTH, rows=rows)).level] += rows
        ahead = {level: had[level] - sum(jobs[:i]) * share for level, share in shares.items()}
        assert all(images < max(jobs) + 1e-9 for images in ahead.values())


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


def test_a_row_that_is_asked_for_under_every_third_plan_keeps_its_turns() -> None:
    plan = a_plan({"base@0": 0.5, "tiny@0": 0.5})
    router = Router(plan, MODELS)
    seen = []
    for version in range(18):
        if version % 3 == 0:
            seen.append(router.route(ask(*BOTH)).model)
        router.follow(replace(plan, version=version))
    assert seen == ["base", "tiny"] * 3
    router.forget_models()
    assert router.route(ask(*BOTH)).model == "base"


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


@given(weights, weights)
def test_under_the_next_plan_no_level_is_owed_what_a_level_had_that_is_gone(
    old: list[int], new: list[int]
) -> None:
    router = Router(a_plan(shares_of(old)), MODELS)
    for _ in range(7):
        router.route(ask(*BOTH))
    router.follow(a_plan(shares_of(new)))
    had = Counter(router.route(ask(*BOTH)).level for _ in range(50))
    for level, share in shares_of(new).items():
        assert abs(had[level] - 50 * share) < 3


def test_what_a_level_that_is_gone_was_owed_is_made_good_by_those_that_stay_by_their_shares() -> (
    None
):
    """Else a level that was ahead of it alone would wait until a new one is as far ahead."""
    router = Router(a_plan({"tiny@0": 0.5, "base@0": 0.5}), MODELS)
    levels = [router.route(ask(*BOTH, rows=rows)).level for rows in (1, 4)]
    assert levels == ["tiny@0", "base@0"], "which is three images ahead"
    router.follow(a_plan({"base@0": 0.75, "base@10": 0.25}))
    turns = [router.route(ask(*BOTH)).skipped_steps for _ in range(8)]
    assert turns == [0, 10, 0, 0, 0, 10, 0, 0]


def test_what_a_level_that_is_gone_was_behind_its_share_is_made_good_likewise() -> None:
    router = Router(a_plan({"base@0": 0.5, "tiny@0": 0.5}), MODELS)
    levels = [router.route(ask(*BOTH, rows=rows)).level for rows in (2, 1)]
    assert levels == ["base@0", "tiny@0"], "which is half an image behind"
    router.follow(a_plan({"base@0": 0.75, "base@10": 0.25}))
    turns = [router.route(ask(*BOTH)).skipped_steps for _ in range(8)]
    assert turns == [0, 0, 10, 0, 0, 0, 10, 0]


def test_a_job_that_cannot_start_from_latents_follows_a_row_of_its_own() -> None:
    plan = a_plan({"base@20": 1.0}, models=BOTH)
    full = replace(plan.pasm[0], is_full=True, shares={"base@0": 0.5, "tiny@0": 0.5})
    router = Router(replace(plan, pasm=(*plan.pasm, full)), MODELS)
    assert router.route(ask(*BOTH)).level == "base@20"
    levels = {router.route(ask(*BOTH, resumes=False)).level for _ in range(4)}
    assert levels == {"base@0", "tiny@0"}


def test_without_such_a_row_it_takes_the_models_of_the_others_at_k_0() -> None:
    router = Router(a_plan({"base@20": 0.5, "base@10": 0.25, "tiny@5": 0.25}), MODELS)
    had = Counter(router.route(ask(*BOTH, resumes=False)).level for _ in range(8))
    assert had == {"base@0": 6, "tiny@0": 2}


def test_a_model_that_loads_gets_no_jobs_that_others_can_do() -> None:
    plan = replace(a_plan({"base@0": 0.5, "tiny@0": 0.5}), resident=("base",))
    router = Router(plan, MODELS)
    assert {router.route(ask(*BOTH)).model for _ in range(4)} == {"base"}
    assert router.route(ask("tiny")).model == "tiny"
    router.follow(replace(plan, resident=BOTH))
    assert {router.route(ask(*BOTH)).model for _ in range(4)} == set(BOTH)


def test_while_all_that_shall_be_held_loads_what_is_about_to_go_serves() -> None:
    plan = replace(a_plan({"tiny@0": 1.0}, held=("tiny",)), resident=("base",))
    router = Router(plan, MODELS)
    assert router.route(ask(*BOTH)).level == "base@0"
    assert router.route(ask("base")).level == "base@0"


def test_for_want_of_a_row_the_nearest_one_is_followed() -> None:
    """None is for these models; that of the class for others tells more than a level at K = 0."""
    rows = (
        PasmRow(application="default", affinity="easy", models=("base",), shares={"base@15": 1.0}),
        PasmRow(application="default", affinity="hard", models=("base",), shares={"base@5": 1.0}),
    )
    plan = replace(a_plan({}, held=BOTH), pasm=rows, levels={"base@10": 1.0})
    router = Router(plan, MODELS)
    assert router.route(ask(*BOTH), "easy").level == "base@15"
    assert router.route(ask(*BOTH), "hard").level == "base@5"
    assert router.route(ask(*BOTH), "new").level == "base@10"


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


HOLDABLE = {"cpu": {"base": 1.0, "tiny": 0.5}}


@pytest.mark.parametrize(
    "query", [ask("base"), ask(*BOTH, exact=True), ask("base", application="avatars")]
)
def test_a_job_whose_model_nobody_holds_waits_on_the_queue_of_that_model(
    query: PlacementQuery,
) -> None:
    plan = replace(a_plan({"tiny@0": 1.0}, held=("tiny",)), loads=HOLDABLE)
    placement = Router(plan, MODELS).route(query)
    assert (placement.queue, placement.level) == ("gen.base", "base@0")


def test_of_models_that_nobody_holds_jobs_wait_for_the_best_that_can_be_held() -> None:
    plan = replace(a_plan({}), assignments={"w0": "other"}, pasm=(), loads=HOLDABLE)
    assert Router(plan, MODELS).route(ask(*BOTH)).model == "base"
    small = replace(plan, loads={"cpu": {"tiny": 0.5}})
    assert Router(small, MODELS).route(ask(*BOTH)).model == "tiny"


def test_a_model_that_no_worker_can_hold_is_refused() -> None:
    plan = replace(a_plan({"tiny@0": 1.0}, held=("tiny",)), loads={"cpu": {"tiny": 0.5}})
    with pytest.raises(NoPlan, match="no worker can hold base: it has too little memory"):
        Router(plan, MODELS).route(ask("base"))


def test_a_model_that_nobody_holds_takes_no_job_whatever_its_share() -> None:
    router = Router(a_plan({"base@0": 0.9, "tiny@0": 0.1}, held=("tiny",)), MODELS)
    assert {router.route(ask(*BOTH)).model for _ in range(9)} == {"tiny"}


@pytest.mark.parametrize("models", [("base",), ("unheard-of",), BOTH, ()])
def test_before_any_worker_has_reported_there_is_no_plan(models: tuple[str, ...]) -> None:
    router = Router(replace(a_plan({}), assignments={}, pasm=()), MODELS)
    with pytest.raises(NoPlan, match="no worker is there to hold"):
        router.route(ask(*models))


def test_an_application_or_class_without_rows_is_served_as_the_plan_loads_its_levels() -> None:
    plan = replace(a_plan({"base@0": 1.0}), levels={"tiny@0": 3.0})
    router = Router(plan, MODELS)
    assert router.route(ask(*BOTH, application="avatars")).level == "base@0"
    assert router.route(ask(*BOTH), "hard").level == "tiny@0"


def test_without_any_row_jobs_skip_steps_as_the_plan_does_if_they_can() -> None:
    router = Router(replace(a_plan({"tiny@0": 1.0}), levels={"base@20": 3.0}), MODELS)
    levels = [router.route(ask(*BOTH, resumes=can), "hard").level for can in (True, False)]
    assert levels == ["base@20", "base@0"]


def test_an_application_follows_the_rows_that_are_its_own() -> None:
    plan = a_plan({"base@0": 1.0})
    own = replace(plan.pasm[0], application="avatars", shares={"tiny@0": 1.0})
    router = Router(replace(plan, pasm=(*plan.pasm, own)), MODELS)
    assert router.route(ask(*BOTH, application="avatars")).level == "tiny@0"
    assert router.route(ask(*BOTH)).level == "base@0"


def test_levels_that_are_left_of_a_row_keep_their_shares_among_each_other() -> None:
    """Of a row the largest level is not held, and another has no share at all."""
    shares = {"big@0": 0.6, "base@0": 0.3, "tiny@0": 0.1, "base@25": 0.0}
    models = MODELS | {"big": a_model("big", quality=2.0)}
    router = Router(a_plan(shares), models)
    turns = "".join(router.route(ask("big", *BOTH)).model[0] for _ in range(8))
    assert turns == "bbtbbbtb"


def test_candidates_are_the_known_ones_sorted() -> None:
    assert candidates_of(ask("tiny", "base", "unheard-of"), MODELS) == BOTH
    assert candidates_of(ask(), MODELS) == BOTH
    assert candidates_of(ask("tiny", "base", exact=True), MODELS) == ("base",)
    assert candidates_of(ask("unheard-of", exact=True), MODELS) == ()


def test_a_level_is_read_back_from_its_name() -> None:
    level = Level(model="a@b", approximation=skipping(20))
    assert Level.read(level.name) == level


def test_of_models_as_good_as_each_other_the_larger_is_the_best_then_the_last_by_name() -> None:
    small, large = (replace(a_model("m"), size_gib=gib) for gib in (1.0, 7.0))
    assert best_model("ab", {"a": large, "b": small}) == "a"
    assert best_model("ab", {"a": small, "b": large}) == "b"
    assert best_model("ab", {"a": large, "b": large}) == "b"
    assert best_model("ba", {"a": large, "b": large}) == "b"
    assert best_model("ab", {"a": replace(small, quality=2.0), "b": large}) == "a"
