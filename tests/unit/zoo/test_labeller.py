import dataclasses
import json

import pytest

from catalog.models import read_models
from core.levels.approximation import skipping
from core.levels.level import Level, resumed_levels
from tests.models import OF_DIFFUSERS, save_sdxl
from zoo.prompts import Split
from zoo.quality.draws import Draw
from zoo.quality.label import levels_of
from zoo.quality.labeller import Labeller, open_bench
from zoo.scenes import held_out

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

WHOLE, SKIPPED = Level(model="noise"), Level(model="noise", approximation=skipping(20))


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """One model with random weights, without guidance."""
    folder = tmp_path_factory.mktemp("models")
    model = save_sdxl(folder / "noise", "noise")
    changed = dataclasses.replace(model, default_size=32, default_guidance=1.0)
    (folder / "noise" / "atelier.json").write_text(json.dumps(dataclasses.asdict(changed)))
    return open_bench(
        read_models(folder), folder, tmp_path_factory.mktemp("work"), steps=10, remembered=5
    )


def a_draw(level, *rows):
    return Draw(level=level, number=0, rows=rows, seeds=rows)


def test_each_image_of_a_draw_is_judged_and_equal_draws_are_judged_alike(bench):
    scenes = held_out(1, 3, seed=0)
    for draw in (a_draw(WHOLE, 0, 2), a_draw(SKIPPED, 2)):
        judged = Labeller(bench, scenes).label(draw)
        assert len(judged) == len(draw.rows)
        assert all(0 <= quality <= 1 for quality in judged)
        assert Labeller(bench, scenes).label(draw) == judged


def test_labels_say_what_made_them(bench):
    origin = bench.origin(Split.TEST)
    assert (origin.digests, origin.steps, origin.remembered) == (bench.digests, 10, 5)
    assert origin != bench.origin(Split.TRAIN)


def test_what_other_weights_or_steps_start_from_has_its_own_place(bench):
    others = [dataclasses.replace(bench, steps=20), dataclasses.replace(bench, digests={})]
    assert len({each.own for each in (bench, *others)}) == 3


def test_the_levels_of_both_strategies_are_labelled_fastest_first(bench):
    tau = {level.name: 1 - level.approximation.skipped_steps / 50 for level in (WHOLE, SKIPPED)}
    tau |= {
        level.name: 1.0 - level.approximation.skipped_steps / 50
        for level in resumed_levels(bench.models["noise"])
    }
    names = [level.name for level in levels_of(bench.models, tau)]
    assert names == [f"noise@{k}" for k in (25, 20, 15, 10, 5, 0)]
