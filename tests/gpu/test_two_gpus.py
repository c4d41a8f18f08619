"""Does a worker make the same images with a second rank on a second GPU?"""

import pytest
import torch

from tests.jobs import a_job
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.stock import difference, engine_images, load_recorder
from worker.families.load import load
from worker.parallel.rank_process import RankSpec
from worker.parallel.second_rank import SecondRank

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(OF_DIFFUSERS),
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]


@pytest.fixture
def saved(tmp_path):
    return tmp_path / "tiny", save_sdxl(tmp_path / "tiny")


def test_images_in_halves_on_two_gpus_are_those_of_one(saved):
    folder, model = saved
    alone, both = (load_recorder(folder, model, device="cuda:0") for _ in range(2))
    spec = RankSpec(
        load=load, folder=folder, model=model, device="cuda:1", dtype="float32", threads=1
    )
    second = SecondRank(spec, "cuda:0")
    second.start()
    assert second.link is not None, "the second rank did not start: see the log"
    both.runner.share(second)
    kinds = [{}, {"guidance": 1.0}, {"scheduler": "heun"}, {"height": 48}]
    jobs = [a_job(f"j{i}", at=float(i), seed=i, steps=5, **kind) for i, kind in enumerate(kinds)]
    arrivals = list(enumerate(jobs))
    made, expected = (engine_images(each, arrivals) for each in (both, alone))
    assert second.link is not None, "the second rank died: see the log"
    both.close()
    for job in jobs:
        assert difference(made[job.id][0], expected[job.id][0]) <= 1e-3
