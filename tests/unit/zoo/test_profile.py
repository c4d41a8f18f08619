from pathlib import Path

from catalog.models import read_models
from core.levels.level import levels_of
from core.model import Model
from profiling.chunks import digest
from scheduler.profile.profile_file import EVERY, read_measured

ZOO = Path(__file__).parents[3] / "zoo"
PROFILE = ZOO / "profile.json"


def models() -> dict[str, Model]:
    return read_models(ZOO / "weights")


def test_the_profile_was_measured_with_these_weights():
    ours = {name: digest(ZOO / "weights" / name) for name in models()}
    assert read_measured(PROFILE).about.digests == ours


def test_every_level_was_measured():
    levels = {level.name for model in models().values() for level in levels_of(model)}
    measured = read_measured(PROFILE)
    assert set(measured.families[EVERY].levels) == levels
    assert set(measured.tau["cpu"]) == levels
