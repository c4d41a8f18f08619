from pathlib import Path

from catalog.models import read_models
from core.levels.level import levels_of
from core.model import Model
from profiling.chunks import digest
from scheduler.profile.profile_file import EVERY, read_measured
from zoo.scenes.words import SIDE

ZOO = Path(__file__).parents[3] / "zoo"
PROFILE = ZOO / "profile.json"


def models() -> dict[str, Model]:
    return read_models(ZOO / "weights")


def test_the_profile_was_measured_with_these_weights():
    ours = {name: digest(ZOO / "weights" / name) for name in models()}
    assert read_measured(PROFILE).about.digests == ours


def test_every_level_was_measured():
    levels = {name: {level.name for level in levels_of(m)} for name, m in models().items()}
    compared = {name for name, model in models().items() if model.makes(SIDE)}
    measured = read_measured(PROFILE)
    assert set(measured.families[EVERY].levels) == set().union(*map(levels.get, compared))
    assert set(measured.tau["cpu"]) == set().union(*levels.values())


def test_what_the_service_chooses_among_makes_pictures_of_one_size():
    assert {name for name, model in models().items() if not model.makes(SIDE)} == {"shapes-hd"}
    assert [level.name for level in levels_of(models()["shapes-hd"])] == ["shapes-hd@0"]
