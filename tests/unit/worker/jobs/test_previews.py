import base64
import json
import time
from io import BytesIO

import numpy as np
from PIL import Image

from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner
from worker.engine.engine import Engine
from worker.jobs.previews import PAUSE_S, Previews


class ShowingRunner(FakeRunner):
    """Shows each image in the grey of its seed, after every second step it is looked at."""

    looks = 0

    def preview(self, sample, request):
        self.looks += 1
        if self.looks % 2:
            return None
        return lambda: np.full((8, 4, 3), sample.seed, np.uint8)


class House:
    """An engine with one job, stepped by hand."""

    def __init__(self, **request):
        self.now, self.runner = 100.0, ShowingRunner()
        self.previews = Previews(clock=lambda: self.now)
        self.engine = Engine(
            max_slots=4, max_rows=8, slo_s=60, on_step=lambda batch, _: self.previews.note(batch)
        )
        self.engine.attach(self.runner)
        self.engine.add(a_job("a", model="tiny", steps=50, **request), None)

    def step(self, times=1):
        for _ in range(times):
            self.engine.step()

    def taken(self):
        """Wait for what is painted."""
        until = time.monotonic() + 5.0
        while not (documents := self.previews.take()) and time.monotonic() < until:
            time.sleep(0.001)
        return {job_id: json.loads(text) for job_id, text in documents.items()}


def opened(text):
    return Image.open(BytesIO(base64.b64decode(text)))


def test_nobody_looks_at_what_nobody_watches():
    house = House()
    house.step(4)
    house.previews.want([])
    house.previews.want(["another"])
    house.step(4)
    assert house.runner.looks == 0
    assert not house.previews.take()


def test_a_job_that_is_watched_is_shown_at_a_step():
    house = House(seed=200)
    house.previews.want(["a"])
    house.step(2)
    (document,) = house.taken().values()
    assert document["step"] == 2
    picture = opened(document["preview"])
    assert (picture.format, picture.size) == ("JPEG", (4, 8))
    assert "previews" not in document


def test_a_job_is_shown_no_more_than_once_a_second():
    house = House()
    for _ in range(10):
        house.previews.want(["a"])
        house.step()
    assert house.runner.looks == 2
    house.now += PAUSE_S
    house.previews.want(["a"])
    house.step(5)
    assert house.runner.looks == 4


def test_every_image_of_a_job_is_shown():
    house = House(n=2, seed=10)
    house.runner.preview = lambda sample, _: lambda: np.full((4, 4, 3), sample.seed, np.uint8)
    house.previews.want(["a"])
    house.step()
    (document,) = house.taken().values()
    assert document["preview"] == document["previews"]["0"]
    greys = [opened(document["previews"][i]).getpixel((0, 0))[0] for i in ("0", "1")]
    assert abs(greys[0] - 10) < 3
    assert len(greys) == 2


def test_a_look_that_fails_fails_no_job():
    house = House()
    house.runner.preview = lambda sample, _: 1 / 0
    house.previews.want(["a"])
    house.step(3)
    assert house.engine.running
