"""The law of the house: an image does not depend on its companions. On the real engine."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.family import SAMPLERS
from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sd3, save_sdxl
from tests.stock import difference, engine_images, load_recorder

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOLERANCE = 1e-4

requests = st.fixed_dictionaries(
    {
        "prompt": st.sampled_from(["", "a cat", "a red star left of a blue ring"]),
        "negative_prompt": st.sampled_from([None, "", "bad"]),
        "steps": st.integers(1, 4),
        "guidance": st.sampled_from([0.0, 1.0, 3.0, 7.5]),
        "seed": st.integers(0, 3),
        "width": st.sampled_from([16, 32]),
        "scheduler": st.sampled_from([None, *SAMPLERS]),
        "n": st.sampled_from([1, 1, 1, 2]),
    }
)
arrivals = st.lists(st.tuples(st.integers(0, 4), requests), min_size=2, max_size=5)


@pytest.fixture(scope="module", params=[save_sdxl, save_sd3], ids=["sdxl", "sd3"])
def recorder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    recorder = load_recorder(folder, request.param(folder, name="tiny"))
    recorder.alone = {}  #: images by request: examples repeat parts of each other
    return recorder


def alone(recorder, job):
    told = repr(job.request)
    if told not in recorder.alone:
        recorder.alone[told] = engine_images(recorder, [(0, job)])[job.id]
    return recorder.alone[told]


def fitting(changes, model):
    """The request, with the model's own sampler if it has not the one drawn."""
    return changes if changes["scheduler"] in model.samplers else changes | {"scheduler": None}


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(arrivals=arrivals, max_rows=st.sampled_from([1, 3, 16]))
def test_an_image_does_not_depend_on_its_companions(recorder, arrivals, max_rows):
    jobs = [
        (at, a_job(f"j{i}", at=float(i), **fitting(changes, recorder.model)))
        for i, (at, changes) in enumerate(arrivals)
    ]
    together = engine_images(recorder, jobs, max_rows=max_rows)
    for _, job in jobs:
        for image, expected in zip(together[job.id], alone(recorder, job), strict=True):
            assert difference(image, expected) <= TOLERANCE


def test_an_image_does_not_depend_on_companions_that_break(recorder):
    broken = a_job("broken", seed=1, steps=3, guidance=float("inf"))
    good = [a_job(f"g{i}", seed=i, steps=4, at=1.0) for i in range(3)]
    alone = [engine_images(recorder, [(0, job)])[job.id][0] for job in good]
    stopped = engine_images(recorder, [(0, broken), *((1, job) for job in good)], are_failing=True)
    assert "not finite" in str(stopped["broken"])
    for job, expected in zip(good, alone, strict=True):
        assert difference(stopped[job.id][0], expected) <= TOLERANCE
