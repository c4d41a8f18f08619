from dataclasses import replace
from pathlib import Path

import pytest

from core.boards.cost import Cost
from core.boards.demand import Stream
from core.errors import ConfigurationError
from core.levels.approximation import SKIPS, skipping
from core.levels.level import Level, resumed_levels
from core.settings import Settings
from scheduler.allocation.allocate import allocate
from scheduler.planning.decide import decide
from scheduler.planning.pose import pose
from scheduler.planning.snapshot import Snapshot
from scheduler.profile.profile import Profile
from scheduler.profile.profile_file import (
    EVERY,
    SMALLER,
    About,
    LevelFamily,
    Measured,
    StepTime,
    joined,
    read_measured,
    write_measured,
)
from tests.unit.scheduler.fakes import a_model, a_profile, a_worker

BASE = a_model("base", quality=0.9, step_s=0.1, load_s=7.0)
FAST = Level(model="base", approximation=skipping(25))
SM = LevelFamily(levels=("base@0",), shares={"base@0": 1.0}, quality={"any": {"base@0": 0.8}})
ALL = LevelFamily(
    levels=("base@25", "base@0"),
    shares={"base@25": 0.75, "base@0": 0.25},
    quality={
        "any": {"base@25": 0.7, "base@0": 1.0},
        "base@25": {"base@25": 1.0, "base@0": 0.95},
        "base@0": {"base@25": 0.2, "base@0": 1.0},
    },
)
MEASURED = Measured(families={SMALLER: SM, EVERY: ALL}, tau={"cpu": {"base@0": 2.0}})


def test_what_nobody_measured_is_guessed_from_the_model() -> None:
    profile = a_profile(BASE)
    assert profile.tau_s(Level(model="base"), "cpu") == pytest.approx(3.0)
    assert profile.tau_s(Level(model="base", approximation=skipping(25)), "cpu") == pytest.approx(
        1.5
    )
    assert profile.load_s("base", "cpu") == 7.0
    assert profile.quality("any", Level(model="base")) == 0.9


def test_a_model_takes_as_long_as_its_own_workers_say_else_as_the_device_does() -> None:
    other = a_model("other", quality=0.5, step_s=0.1)
    profile = replace(
        a_profile(BASE, other), slowness={"cpu": 2.0}, model_slowness={("cpu", "base"): 1.5}
    )
    known, guessed = (profile.tau_s(Level(model=name), "cpu") for name in ("base", "other"))
    assert (known, guessed) == (pytest.approx(1.5 * 3.0), pytest.approx(2.0 * 3.0))


def test_what_was_measured_goes_before_the_guess(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(
        '{"tau": {"cpu": {"base@0": 2.5}}, "load": {"cpu": {"base": 4}},'
        ' "quality": {"hard": {"base@0": 0.5}}}'
    )
    profile = Profile(models={"base": BASE}, measured=read_measured(path))
    assert profile.tau_s(Level(model="base"), "cpu") == 2.5
    assert profile.tau_s(Level(model="base"), "gpu") == pytest.approx(3.0)
    assert profile.load_s("base", "cpu") == 4.0
    assert profile.quality("hard", Level(model="base")) == 0.5
    assert profile.quality("easy", Level(model="base")) == 0.9


def test_a_machine_without_a_profile_is_no_error(tmp_path: Path) -> None:
    assert read_measured(tmp_path / "profile.json") == Measured()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"tau": 3}',
        '{"tau": {"cpu": {"base@0": 0}}}',
        '{"quality": {"a": {"base@0": 2}}}',
        '{"fixed": {"cpu": {"base": -1}}}',
        '{"families": {"sm": {"levels": ["a@0"], "shares": {"a@0": 0.5}, "quality": {}}}}',
        '{"families": {"sm": {"levels": ["a@0"], "shares": {"b@0": 1}, "quality": {}}}}',
        '{"families": {"sm": {"levels": [], "shares": {}, "quality": {"a": {"a@0": -1}}}}}',
    ],
)
def test_a_file_that_is_no_profile_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"profile\.json"):
        read_measured(path)


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_measured(tmp_path / "new" / "profile.json", MEASURED)
    assert read_measured(tmp_path / "new" / "profile.json") == MEASURED


def test_levels_with_skipped_steps_wait_for_one_switch() -> None:
    assert Profile(models={"base": BASE}, measured=MEASURED).levels == (Level(model="base"),)
    resuming = Profile(models={"base": BASE}, measured=MEASURED, can_resume=True)
    assert resuming.levels == (Level(model="base"), FAST)


def test_nobody_skips_steps_whose_cost_in_quality_nobody_measured() -> None:
    profile = Profile(models={"base": BASE}, can_resume=True)
    assert len(resumed_levels(BASE)) == len(SKIPS)
    assert profile.levels == (Level(model="base"),)


def test_quality_is_that_of_the_levels_available() -> None:
    plain = Profile(models={"base": BASE}, measured=MEASURED)
    resuming = Profile(models={"base": BASE}, measured=MEASURED, can_resume=True)
    assert plain.quality("any", Level(model="base")) == 0.8
    assert resuming.quality("base@0", FAST) == 0.2
    assert resuming.quality("never heard of", FAST) == 0.7


def test_an_idle_worker_is_worth_what_its_model_makes_but_for_the_one_of_exact_jobs() -> None:
    small = a_model("small", quality=0.6, step_s=0.05)
    profile = Profile(models={"base": BASE, "small": small}, measured=MEASURED)
    assert pose(Snapshot(workers=()), profile).worth == {"base": 1.0, "small": 0.6}


def test_classes_are_expected_as_they_were_measured() -> None:
    profile = Profile(models={"base": BASE}, measured=MEASURED, can_resume=True)
    assert profile.prior(("base@0", "base@25")) == {"base@0": 0.25, "base@25": 0.75}
    assert profile.prior(("any",)) == {"any": 1.0}
    assert Profile(models={"base": BASE}).prior(("a", "b")) == {"a": 1.0}


def test_under_load_each_class_gives_up_as_little_as_it_can() -> None:
    profile = Profile(models={"base": BASE}, measured=MEASURED, can_resume=True)
    snapshot = Snapshot(
        workers=(a_worker("w", "base"),),
        rates={Stream(application="default", models=("base",)): 0.5},
        classes=("base@0", "base@25"),
    )
    rows = {row.affinity: row.shares for row in decide(snapshot, profile, allocate).pasm}
    assert rows["base@0"].get("base@0", 0.0) > rows["base@25"].get("base@0", 0.0)


def test_a_profile_made_here_goes_before_the_one_beside_the_models(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data", models_dir=tmp_path / "zoo" / "weights")
    assert settings.profile_path == tmp_path / "zoo" / "profile.json"
    write_measured(tmp_path / "data" / "profile.json", MEASURED)
    assert settings.profile_path == tmp_path / "data" / "profile.json"


def test_times_of_another_device_stay_as_long_as_the_models_do() -> None:
    about = About(digests={"base": "a"})
    cpu = Measured(tau={"cpu": {"base@0": 2.0}}, about=about)
    gpu = Measured(tau={"gpu": {"base@0": 0.1}}, about=about)
    assert joined(cpu, gpu).tau == {"cpu": {"base@0": 2.0}, "gpu": {"base@0": 0.1}}
    assert joined(cpu, Measured(tau=gpu.tau)).tau == gpu.tau


def test_a_miss_runs_every_step_so_time_and_quality_count_it() -> None:
    half = Profile(
        models={"base": BASE}, measured=MEASURED, can_resume=True, hit_rates={FAST.name: 0.5}
    )
    assert half.tau_s(FAST, "cpu") == pytest.approx((2.0 + 2.0 / 2) / 2)
    assert half.quality("base@0", FAST) == pytest.approx((0.2 + 1.0) / 2)
    assert half.tau_s(Level(model="base"), "cpu") == 2.0


def test_a_level_that_is_hardly_ever_hit_is_left_out() -> None:
    rare = Profile(
        models={"base": BASE}, measured=MEASURED, can_resume=True, hit_rates={FAST.name: 0.01}
    )
    assert rare.levels == (Level(model="base"),)


def test_the_cost_of_an_image_is_that_of_its_own_steps() -> None:
    times = (
        StepTime(images=8, is_guided=True, seconds=0.4),
        StepTime(images=1, is_guided=True, seconds=0.1),
        StepTime(images=1, is_guided=False, seconds=0.05),
    )
    measured = Measured(steps={"cpu": {"base": times}}, fixed={"cpu": {"base": 0.2}})
    profile = Profile(models={"base": BASE}, measured=measured)
    assert profile.cost("base", "cpu") == Cost(
        fixed_s=0.2, steps=((1, 0.1), (8, 0.4)), is_measured=True
    )
    assert profile.cost("base", "gpu") == Cost(steps=((1, 0.1),))
    tried = Cost(steps=((1, 0.01),), is_measured=True)
    seen = replace(profile, seen={("gpu", "base"): tried, ("cpu", "base"): tried})
    assert seen.cost("base", "gpu") == tried
    assert seen.cost("base", "cpu") == profile.cost("base", "cpu")
    assert seen.tau_s(FAST, "gpu") == pytest.approx(0.15)


def test_a_model_of_unknown_quality_is_taken_for_as_good_as_the_worst_known() -> None:
    good, bad = a_model("good", quality=0.9), a_model("bad", quality=0.4)
    unknown = replace(a_model("unknown"), quality=None)
    assert a_profile(good, bad, unknown).quality("any", Level(model="unknown")) == 0.4
    assert a_profile(unknown).quality("any", Level(model="unknown")) == 1.0
    measured = Measured(quality={"any": {"unknown@0": 0.7}})
    profile = replace(a_profile(good, bad, unknown), measured=measured)
    assert profile.quality("any", Level(model="unknown")) == 0.7
