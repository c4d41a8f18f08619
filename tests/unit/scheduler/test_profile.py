from pathlib import Path

import pytest

from core.errors import ConfigurationError
from core.variant import Level
from scheduler.profile import Measured, Profile, read_measured
from tests.unit.scheduler.twins import a_model, a_profile

BASE = a_model("base", quality=0.9, step_s=0.1, load_s=7.0)


def test_what_nobody_measured_is_guessed_from_the_model() -> None:
    profile = a_profile(BASE)
    assert profile.tau_s(Level(model="base"), "cpu") == pytest.approx(3.0)
    assert profile.tau_s(Level(model="base", skipped_steps=25), "cpu") == pytest.approx(1.5)
    assert profile.load_s("base", "cpu") == 7.0
    assert profile.quality("any", Level(model="base")) == 0.9


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
    ["{", '{"tau": 3}', '{"tau": {"cpu": {"base@0": 0}}}', '{"quality": {"a": {"base@0": 2}}}'],
)
def test_a_file_that_is_no_profile_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=r"profile\.json"):
        read_measured(path)
