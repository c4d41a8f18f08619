import tracemalloc

import numpy as np
import pytest

from core.errors import ConfigurationError
from loadgen.workload import Workload

PROMPTS = ("a star", "a ring")


def test_a_column_that_is_not_given_says_nothing():
    (request,) = Workload.of([1.5], prompts=PROMPTS).requests()
    assert request.body == {"prompt": "a star", "seed": 0}
    assert (request.at_s, request.mask_ratio, request.cancel_s) == (1.5, 0.0, None)


def test_a_request_says_what_its_row_says():
    workload = Workload.of(
        [0.0, 1.0],
        prompts=PROMPTS,
        prompt=[0, 1],
        application=[-1, 0],
        applications=("shop",),
        model=[-1, 1],
        models=("m", "xl"),
        steps=[0, 12],
        images=[1, 3],
        width=[0, 64],
        height=[0, 32],
        mask_ratio=[0, 0.2],
        loras=[0, 2],
        controls=[0, 1],
        cancel_s=[np.nan, 2.5],
        others={"priority": np.array([None, "batch"], object)},
    )
    plain, full = workload.requests(seed=7)
    assert plain.body == {"prompt": "a star", "seed": 7}
    assert full.body == {
        "prompt": "a ring",
        "application": "shop",
        "model": "xl",
        "steps": 12,
        "n": 3,
        "width": 64,
        "height": 32,
        "priority": "batch",
        "seed": 8,
    }
    assert (full.mask_ratio, full.loras, full.controls, full.cancel_s) == (0.2, 2, 1, 2.5)


def test_a_stretch_has_who_arrives_in_it():
    workload = Workload.of([0, 1, 2, 2, 3], prompts=PROMPTS, prompt=[0, 1, 0, 1, 1])
    stretch = workload.between(1, 3)
    assert stretch.at_s.tolist() == [1, 2, 2]
    assert stretch.prompt.tolist() == [1, 0, 1]
    assert len(workload.between(5, 9)) == 0


def test_a_workload_played_faster_takes_less_time():
    assert Workload.of([2, 4], prompts=PROMPTS).faster(2).at_s.tolist() == [1, 2]


def test_millions_of_requests_are_as_large_as_the_columns_that_they_fill():
    tracemalloc.start()
    try:
        workload = Workload.of(np.arange(2_000_000) / 100, prompts=PROMPTS)
        assert len(workload.between(100, 200)) == 10_000
        assert tracemalloc.get_traced_memory()[1] < 70e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "given",
    [
        {"at_s": [1, 0]},
        {"at_s": [-1, 0]},
        {"at_s": [0, np.nan]},
        {"at_s": [0, 1], "steps": [1]},
        {"at_s": [0, 1], "prompt": [0, 2]},
        {"at_s": [0, 1], "prompt": [0, -1]},
        {"at_s": [0, 1], "model": [0, -1]},
    ],
)
def test_columns_that_do_not_fit_together_are_refused(given):
    with pytest.raises(ConfigurationError, match="workload"):
        Workload.of(**given, prompts=PROMPTS)


def test_a_seed_that_was_asked_for_stands():
    workload = Workload.of([0.0], prompts=PROMPTS, others={"seed": np.array([7], object)})
    (request,) = workload.requests(seed=3)
    assert request.body["seed"] == 7
