"""What a person says of a world is read, or refused by one sentence that names it."""

import json
from pathlib import Path

import pytest

from core.errors import ConfigurationError
from loadgen.prompts import read_prompts
from scheduler.approximate_cache.strategy import Dependency
from simulator.inputs import (
    EXAMPLE,
    EXAMPLE_PROMPTS,
    check_types,
    parse_fleet,
    parse_outage,
    parse_stall,
    read_devices,
)
from simulator.world import Outage, Stall

ZOO = Path(__file__).parents[3] / "zoo" / "profile.json"


def test_a_fleet_names_its_types():
    assert parse_fleet("a100=8, NVIDIA L40S=4") == {"a100": 8, "NVIDIA L40S": 4}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "not TYPE=COUNT"),
        ("a100", "not TYPE=COUNT"),
        ("a100=", "not TYPE=COUNT"),
        ("=8", "not TYPE=COUNT"),
        ("a100=-1", "not TYPE=COUNT"),
        ("a100=1.5", "not TYPE=COUNT"),
        ("a100=٣", "not TYPE=COUNT"),
        ("a100=8,", "not TYPE=COUNT"),
        ("a100=0", "0 workers"),
        ("a100=1,a100=2", "twice"),
        ("a100=100001", "100001 workers"),
        ("a100=99999999999999999999", "workers"),
        ("a100=60000,l40s=60000", "l40s: 60000 workers"),
    ],
)
def test_what_is_no_fleet_is_refused(text, word):
    with pytest.raises(ConfigurationError, match=word) as caught:
        parse_fleet(text)
    assert str(caught.value).startswith("fleet: ")


def test_outages_and_stalls_are_read():
    assert parse_outage("60:360.5:4", 8) == Outage(begin_s=60.0, end_s=360.5, workers=4)
    assert parse_stall("store:1:2") == Stall(begin_s=1.0, end_s=2.0, whom=Dependency.STORE)


@pytest.mark.parametrize(
    "text",
    ["", "60:360", "60:360:4:5", "x:360:4", "360:60:4", "-1:2:1", "0:inf:1", "0:1:9", "0:1:0"],
)
def test_what_is_no_outage_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^fail: "):
        parse_outage(text, 8)


@pytest.mark.parametrize(
    "text", ["", "index:1", "reads:0:1", "disk:0:1", "index:nan:1", "index:2:1"]
)
def test_what_is_no_stall_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^stall: "):
        parse_stall(text)


def test_the_example_knows_three_types_and_its_prompts_every_level():
    known = read_devices(EXAMPLE)
    assert known.types == ("a100", "h200", "l40s")
    prompts = read_prompts(EXAMPLE_PROMPTS)
    assert prompts.has_quality
    assert set(prompts.levels) <= {each.name for each in known.profile.levels} | {
        f"sdxl@{k}" for k in (5, 10, 15, 20, 25)
    }
    check_types({"a100": 1, "h200": 2}, known)
    with pytest.raises(ConfigurationError, match="knows no 'tpu'; it has a100, h200, l40s"):
        check_types({"tpu": 1}, known)


def test_models_that_no_folder_describes_are_described_by_what_they_took():
    """The zoo's own profile, read where the zoo is not."""
    models = read_devices(ZOO).profile.models
    assert models["shapes-xl"].default_steps == 50
    assert not models["shapes-turbo"].is_guided(models["shapes-turbo"].default_guidance)


def a_profile(**changes):
    whole = json.loads(EXAMPLE.read_text())
    whole.update(changes)
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "truncated"),
        ("[]", "Expected `object`"),
        ("{}", "neither steps nor tau"),
        ('{"steps": 3}', r"\$.steps"),
        ('{"steps": {"a100": {"m": [{"images": 1}]}}}', r"is_guided"),
        (
            '{"steps": {"a100": {"m": [{"images": 1, "is_guided": true, "seconds": 1.0}]}}}',
            "models.m",
        ),
        ('{"tau": {"a100": {"m@0": 1.0}}}', "models.m is missing"),
        (a_profile(fixed={"a100": {"sdxl": -1.0}}), "must be positive"),
        ('{"load": {"a100": {"sdxl": 1e400}}}', r"\$.load"),
        (
            '{"steps": {"a": {"m": [{"images": 0, "is_guided": true, "seconds": 1.0}]}}}',
            "one image or more",
        ),
        (a_profile(models={"sdxl": {"name": "tiny", "family": "sdxl"}}), "its name is 'tiny'"),
        (
            a_profile(models={"sdxl": {"name": "sdxl", "family": "sdxl", "default_steps": 0}}),
            "models.sdxl.default_steps: 0",
        ),
        (a_profile(memory_gib={"a100": 0}), "memory_gib.a100"),
    ],
)
def test_what_is_no_profile_is_refused(text, word, tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=word) as caught:
        read_devices(path)
    assert str(path) in str(caught.value)


def test_a_profile_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        read_devices(tmp_path / "profile.json")
