import dataclasses
import io
import json
from functools import partial

import numpy as np
import pytest
import torch
from rich.console import Console

from catalog.models import read_models
from core.levels.approximation import skipping
from core.levels.level import Level, levels_of, resumed_levels
from profiling.chunks import Chunks, digest
from profiling.cost import steps_left
from profiling.generate import ImageGenerator, nearest
from profiling.measure import MeasurementPlace, measure
from profiling.plan import MeasurementPlan
from scheduler.profile.profile_file import EVERY, read_measured, write_measured
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.families.load import load
from zoo.plots import PLOTS, main
from zoo.prompts.measured import captions_of
from zoo.prompts.measured import measured as scenes_of
from zoo.prompts.measured import remembered as memory_of
from zoo.quality.verdict import judge
from zoo.scenes import draw

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

PLAN = MeasurementPlan(prompts=5, remembered=5, repeats=1, steps=10)
PROMPTS = ["a red circle", "two blue stars", "a green ring above a white square"]


@pytest.fixture(scope="module")
def models_dir(tmp_path_factory):
    """One model with random weights, without guidance."""
    folder = tmp_path_factory.mktemp("models")
    model = save_sdxl(folder / "noise", "noise")
    changed = dataclasses.replace(model, default_size=32, default_guidance=1.0)
    (folder / "noise" / "atelier.json").write_text(json.dumps(dataclasses.asdict(changed)))
    return folder


@pytest.fixture(scope="module")
def runner(models_dir):
    model = read_models(models_dir)["noise"]
    return load(models_dir / "noise", model, device="cpu", dtype="float32")


def test_going_on_from_one_s_own_latent_makes_the_same_image(runner):
    maker = ImageGenerator(runner, 10, lambda steps: None)
    whole, memory = maker.make(PROMPTS, [1, 2, 3]), maker.remember(PROMPTS, [1, 2, 3])
    for level in resumed_levels(runner.model):
        resumed, similarity = maker.resume(PROMPTS, level, memory)
        assert similarity == pytest.approx([1, 1, 1])
        for image, again in zip(whole, resumed, strict=True):
            assert np.abs(image.astype(int) - again).max() <= 1


def test_only_the_steps_that_are_left_are_taken(runner):
    taken = []
    maker = ImageGenerator(runner, 10, taken.append)
    memory = maker.remember(PROMPTS[:1], [0])
    assert sum(taken) == 5
    taken.clear()
    maker.resume(PROMPTS, Level(model="noise", approximation=skipping(20)), memory)
    assert sum(taken) == 3 * 6


def test_the_nearest_neighbour_is_the_most_similar():
    memory = torch.eye(3)
    index, similarity = nearest(torch.tensor([[0.0, 0.6, 0.8]]), memory)
    assert (index.tolist(), similarity.tolist()) == ([2], pytest.approx([0.8]))


def test_prompts_are_of_every_difficulty_and_none_is_remembered_beyond_level_1():
    plan = MeasurementPlan(prompts=50, remembered=100, repeats=2)
    tested = [scene for scene in scenes_of(plan) if scene.level > 1]
    assert len(tested) == 40
    remembered = [{scene.caption for scene in memory_of(plan, repeat)} for repeat in (0, 1)]
    assert not {scene.caption for scene in tested} & (remembered[0] | remembered[1])
    assert remembered[0] != remembered[1]
    assert not {*plan.seeds(0), *plan.seeds(1)} & {
        *plan.seeds_of_memory(0),
        *plan.seeds_of_memory(1),
    }


def test_a_right_picture_is_worth_twice_a_nearly_right_one():
    scenes = scenes_of(MeasurementPlan(prompts=5))
    right = judge([draw(scene) for scene in scenes], scenes, None).quality
    wrong = judge([draw(scene) for scene in scenes[1:] + scenes[:1]], scenes, None).quality
    assert (right == 1).all()
    assert (wrong < 0.5).all()


def test_a_measurement_goes_on_where_it_was_stopped(models_dir, runner, tmp_path):
    model = runner.model
    chunks = Chunks(tmp_path, PLAN, captions_of(PLAN), model, digest(models_dir / "noise"))
    first = resumed_levels(model)[0]
    whole = steps_left(model, PLAN, chunks)
    assert whole == 5 * (10 + 9 + 8 + 7 + 6 + 5) + 5 * 5
    chunks.make(ImageGenerator(runner, 10, lambda steps: None), first, 0)
    assert steps_left(model, PLAN, chunks) == whole - 5 * 9 - 5 * 5
    before = chunks.read(first, 0)

    def refuse(steps):
        raise AssertionError("made again")

    chunks.make(ImageGenerator(runner, 10, refuse), first, 0)
    assert (chunks.read(first, 0) == before).all()


def test_images_of_other_weights_are_not_taken_for_these(runner, tmp_path):
    ours = Chunks(tmp_path, PLAN, captions_of(PLAN), runner.model, "ours")
    level = Level(model=runner.model.name)
    ours.make(ImageGenerator(runner, 10, lambda steps: None), level, 0)
    assert ours.is_there(level, 0)
    assert not Chunks(tmp_path, PLAN, captions_of(PLAN), runner.model, "others").is_there(level, 0)


def test_a_model_of_few_steps_is_measured_whole_alone(runner):
    model = dataclasses.replace(runner.model, default_steps=4)
    assert levels_of(model) == (Level(model=model.name),)
    assert PLAN.steps_of(model) == 4


@pytest.mark.long
def test_a_profile_is_measured_written_and_drawn(models_dir, tmp_path):
    models, console = read_models(models_dir), Console(file=io.StringIO())
    place = MeasurementPlace(
        models=models_dir, work=tmp_path / "work", device="cpu", dtype="float32"
    )
    by_checker = partial(judge, scenes=scenes_of(PLAN), scorer=None)
    measured = measure(models, PLAN, captions_of(PLAN), by_checker, place, console)
    path = tmp_path / "profile.json"
    write_measured(path, measured)
    assert read_measured(path) == measured
    levels = {level.name for level in levels_of(models["noise"])}
    assert set(measured.tau["cpu"]) == set(measured.families[EVERY].levels) == levels
    assert measured.about.digests == {"noise": digest(models_dir / "noise")}
    main(path, tmp_path)
    assert {file.stem for file in tmp_path.glob("*.png")} == set(PLOTS)
