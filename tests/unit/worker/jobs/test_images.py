"""Orders of images that lose their processes."""

from concurrent.futures import Future

import numpy as np
import pytest
from pydantic import SecretStr

from core.errors import ProcessLost
from core.job import Task
from core.request.output import Output
from core.request.upscale import Upscale
from core.settings import Settings
from tests.jobs import a_job
from worker.engine.slot import JobImages
from worker.jobs.images import Images


class Calls:
    """Stands for the processes: answers when told to, and dies of one parcel."""

    def __init__(self):
        self.waiting, self.batches = [], []

    def run(self, function, parcels):
        answer = Future()
        self.waiting.append((parcels, answer))
        return answer

    def answer(self):
        parcels, answer = self.waiting.pop(0)
        prefixes = [parcel.prefix for parcel in parcels]
        self.batches.append(prefixes)
        if "deadly" in prefixes:
            answer.set_exception(ProcessLost("its CPU process died"))
        else:
            answer.set_result([()] * len(parcels))

    def close(self):
        pass


@pytest.fixture
def images(tmp_path):
    images = Images(Settings(data_dir=tmp_path, url_secret=SecretStr("s")))
    images._processes = Calls()
    return images


def test_orders_that_lose_their_process_together_go_alone_and_only_the_deadly_one_fails(images):
    pixels = np.zeros((2, 2, 3), np.uint8)
    made = JobImages(job_id="j", images=(pixels,), seeds=(1,), admitted_at=0.0, denoised_at=0.0)
    names = ["first", "second", "a", "deadly", "b"]  # the first two calls take one each
    answers = {name: images.put(name, made, Output()) for name in names}
    calls = images._processes
    while calls.waiting:
        calls.answer()
    assert calls.batches[2:] == [["a", "deadly", "b"], ["a"], ["deadly"], ["b"]]
    assert [name for name in names if answers[name].exception()] == ["deadly"]


def test_a_job_that_enlarges_a_picture_has_it_read(images):
    job = a_job("j", task=Task.UPSCALE, upscale=Upscale(image="t/j/picture.png"))
    images.get(job)
    [(request, _)] = images._processes.waiting
    assert request is job.request
