"""A model is timed between jobs: whatever is given up in its middle, images are what they are."""

from random import Random

import numpy as np
import pytest

from tests.cases import rarely_but
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_flux, save_sd3, save_sdxl
from worker.engine.engine import Engine
from worker.engine.idle_work import GivenUp
from worker.families.load import load
from worker.trials.cost_trial import Trials
from worker.trials.timing import clock_of

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]


def run_out(engine):
    while engine.step():
        pass


def make(engine, model, number):
    job = a_job(f"j{number}", model=model.name, width=32, height=32, steps=3, seed=number)
    future = engine.add(job, None)
    run_out(engine)
    return future.result(0).images[0]


def an_engine(folder, model):
    runner = load(folder, model, device="cpu", dtype="float32")
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(runner)
    return engine, runner


@pytest.mark.parametrize("save", rarely_but([save_sdxl], [save_sd3, save_flux]))
def test_a_trial_given_up_anywhere_changes_no_image_and_comes_to_its_end(tmp_path, save):
    model, random, given_up = save(tmp_path), Random(5), []
    untouched, _ = an_engine(tmp_path, model)
    engine, runner = an_engine(tmp_path, model)

    def give_way():
        if random.random() < 0.001:
            given_up.append(True)
            raise GivenUp

    trials = Trials(profiled=(), clock=clock_of("cpu"), give_way=give_way)
    ended = engine.when_idle(model, trials.parts(runner))
    number = 0
    while not ended.done():
        engine._idle.run_part()
        if len(given_up) > number < 3:
            number = len(given_up)
            assert np.array_equal(make(engine, model, number), make(untouched, model, number))
    assert ended.exception() is None and given_up
    assert [images for images, _ in trials.costs[model.name].steps] == [1, 2, 4, 8]
    assert np.array_equal(make(engine, model, 99), make(untouched, model, 99))
