import json
from collections import Counter
from itertools import islice, pairwise

import pytest
import typer
from typer.testing import CliRunner

from core.settings import PROMPTS
from profiling.plan import MeasurementPlan
from tests.map import ROOT
from zoo.prompts import SIZES, Drift, Split, digest, prompt_set, prompts_of, stream
from zoo.prompts.__main__ import main
from zoo.prompts.measured import captions_of, lines_of
from zoo.scenes import LEVELS

#: Version 1; a change of any prompt is a new version.
DIGESTS = {
    Split.TRAIN: "6fe163223fb293fb73d4a91e68d7d67c90229145e97b3ef542490f6bba815f05",
    Split.VALIDATION: "510b681211305c977431d8dda4bd2391003fa01a5d5adec6c821c2559d3847b6",
    Split.TEST: "b6d7027e45d5a9b00bb9359532639da0b9399de728765fc0a01e18d8edb09c76",
}


@pytest.fixture(scope="module")
def sets():
    return {split: list(prompt_set(split)) for split in Split}


@pytest.mark.long
def test_the_sets_are_what_version_1_says(sets):
    assert {split: digest(prompts) for split, prompts in sets.items()} == DIGESTS
    assert {split: len(prompts) for split, prompts in sets.items()} == {
        split: size * len(LEVELS) for split, size in SIZES.items()
    }


@pytest.mark.long
def test_no_caption_beyond_the_42_of_level_1_is_in_two_splits(sets):
    plain = {prompt.caption for prompt in sets[Split.TEST] if prompt.level == 1}
    assert len(plain) == 42
    places = Counter(
        caption
        for prompts in sets.values()
        for caption in {prompt.caption for prompt in prompts if prompt.level > 1}
    )
    assert max(places.values()) == 1
    assert not plain & set(places)


@pytest.mark.long
def test_ids_and_addresses_are_unique(sets):
    everything = [prompt for prompts in sets.values() for prompt in prompts]
    assert len({prompt.id for prompt in everything}) == len(everything)
    assert len({prompt.address for prompt in everything}) == len(everything)


@pytest.mark.long
def test_an_address_gives_the_scene_of_its_prompt(sets):
    for prompts in sets.values():
        for prompt in prompts[::997]:
            scene = prompt.address.scene()
            assert (scene.caption, scene.level) == (prompt.caption, prompt.level)


@pytest.mark.long
def test_only_the_train_split_shows_training_scenes(sets):
    streams = {split: {each.address.stream for each in sets[split]} for split in Split}
    assert streams == {
        Split.TRAIN: {"training"},
        Split.VALIDATION: {"held out"},
        Split.TEST: {"held out"},
    }


@pytest.mark.long
def test_a_level_goes_on_after_its_set(sets):
    more = list(islice(prompts_of(Split.VALIDATION, 5), SIZES[Split.VALIDATION] + 3))
    assert more[:-3] == [prompt for prompt in sets[Split.VALIDATION] if prompt.level == 5]


def mean_level(mix):
    return sum(level * share for level, share in mix.items())


def test_the_mix_drifts_smoothly_from_easy_to_hard_and_back():
    drift = Drift(period=400)
    means = [mean_level(drift.mix_at(at, seed=0)) for at in range(401)]
    assert means[0] < 2 and means[200] > 4
    assert means[400] == pytest.approx(means[0])
    assert max(abs(b - a) for a, b in pairwise(means)) < 0.05


def test_a_jump_moves_the_mix_at_once_and_only_there():
    drift = Drift(period=4000, jump_every=100)
    means = [mean_level(drift.mix_at(at, seed=3)) for at in range(1000)]
    steps = [abs(b - a) for a, b in pairwise(means)]
    assert max(steps[99::100]) > 1
    assert max(step for at, step in enumerate(steps) if at % 100 != 99) < 0.01


def test_equal_seeds_give_equal_streams_and_others_do_not():
    drift = Drift(period=50)
    first, again, other = (
        [prompt.id for prompt in islice(stream(seed, drift), 60)] for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(set(first)) == 60


def test_a_stream_follows_its_mix():
    levels = [prompt.level for prompt in islice(stream(0, Drift(period=300)), 300)]
    assert sum(levels[:40]) / 40 < 2
    assert sum(levels[130:170]) / 40 > 4


def run(*arguments):
    app = typer.Typer()
    app.command()(main)
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output


def test_sets_and_streams_are_written_as_lines_of_json(tmp_path):
    run(tmp_path / "set.jsonl", "--split", "validation", "--per-level", 3)
    run(tmp_path / "stream.jsonl", "--length", 20, "--jump-every", 5)
    lines = (tmp_path / "set.jsonl").read_text().splitlines()
    fields = json.loads(lines[-1])
    assert len(lines) == 15
    assert fields["id"] == "v1-validation-5-00002"
    assert fields["address"]["level"] == fields["level"] == 5
    assert len((tmp_path / "stream.jsonl").read_text().splitlines()) == 20


def test_what_a_profile_measures_with_is_what_the_zoo_would_say():
    plan = MeasurementPlan()
    assert (ROOT / "zoo" / PROMPTS).read_text() == lines_of(captions_of(plan))
