import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from core.boards.cost import Cost
from core.errors import ConfigurationError
from core.model import Model
from worker.families.noop import NoopRunner
from worker.trials.cost_trial import Trials, profiled
from worker.trials.timing import TRIES


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Timed(NoopRunner):
    """Takes a second for what images share, a tenth for each, and half to decode one."""

    def __init__(self, model, clock):
        super().__init__(model)
        self.clock, self.is_closed = clock, False

    def forward(self, samples):
        self.clock.now += 1.0 + 0.1 * len(samples)
        return super().forward(samples)

    def decode(self, sample):
        self.clock.now += 0.5
        return super().decode(sample)

    def close(self):
        self.is_closed = True


def a_model(name, **fields):
    return Model(name=name, family="noop", **fields)


def run(parts):
    for part in parts:
        part()


def a_runner(name="m", **fields):
    return Timed(a_model(name, default_steps=2, **fields), Clock())


def trials(runner, *known, **options):
    return Trials(profiled=known, clock=runner.clock, **options)


def test_a_cost_is_what_steps_of_several_images_take_and_what_comes_beside_them():
    told, runner = [], a_runner()
    found = trials(runner, on_tried=lambda *of: told.append(of))
    run(found.parts(runner))
    first, last = (cost for _, cost in told)
    assert first.is_measured
    assert first.fixed_s == pytest.approx(0.5)
    assert [n for n, _ in first.steps] == [1, 4]  # at once, and more of it later
    assert [n for n, _ in last.steps] == [1, 2, 4, 8]
    assert [s for _, s in last.steps] == pytest.approx([1.1, 1.2, 1.4, 1.8])
    assert found.costs == {"m": last} and found.untried(["m", "n"]) == ("n",)


def test_what_a_profile_or_another_worker_knows_is_not_measured_again():
    runner = a_runner()
    assert list(trials(runner, "m").parts(runner)) == []
    found, cost = trials(runner), Cost(steps=((1, 2.0),), is_measured=True)
    found.learn(runner.model, cost)
    assert list(found.parts(runner)) == []
    assert found.costs == {"m": cost}


def test_what_was_measured_stays_when_the_model_is_unloaded_before_the_end():
    runner = a_runner()
    found = trials(runner)
    parts = found.parts(runner)
    for _ in range(1 + 1 + TRIES):  # opened, warmed up, timed
        next(parts)()
    next(parts)  # the first of four images is not opened any more
    again, before = a_runner(), runner.clock.now
    again.clock = runner.clock
    run(found.parts(again))
    steps = sum(1.0 + 0.1 * images for images in (4, 2, 8))
    assert runner.clock.now - before == pytest.approx((steps + 0.5) * (1 + TRIES))
    assert [n for n, _ in found.costs["m"].steps] == [1, 2, 4, 8]


def test_every_layer_of_what_is_timed_gives_way():
    layers = nn.Sequential(nn.Identity(), nn.Identity())

    class Layered(Timed):
        pipe = SimpleNamespace(components={"unet": layers})

        def forward(self, samples):
            layers(torch.zeros(1))
            return super().forward(samples)

    entered = []

    def give_way():
        entered.append(is_wanted)
        if is_wanted and len(entered) == 3:  # between two layers
            raise RuntimeError("given up")

    runner, is_wanted = Layered(a_model("m", default_steps=2), Clock()), False
    parts = trials(runner, give_way=give_way).parts(runner)
    next(parts)()
    step = next(parts)
    entered.clear()
    is_wanted = True
    with pytest.raises(RuntimeError, match="given up"):
        step()
    assert runner.clock.now == 0.0
    assert not any(layer._forward_pre_hooks for layer in layers)
    is_wanted = False
    step()
    assert runner.clock.now == pytest.approx(1.1)


def test_a_batch_too_large_for_the_memory_is_not_measured_and_no_failure():
    class Small(Timed):
        def forward(self, samples):
            if len(samples) > 2:
                raise MemoryError
            return super().forward(samples)

    runner = Small(a_model("m", default_steps=2), Clock())
    found = trials(runner)
    run(found.parts(runner))
    assert [n for n, _ in found.costs["m"].steps] == [1]


def test_no_more_images_are_timed_than_there_is_memory_for():
    runner = a_runner()
    found = trials(runner, fits=lambda model, images: images <= 2)
    run(found.parts(runner))
    assert [n for n, _ in found.costs["m"].steps] == [1, 2]


def test_steps_that_take_very_long_are_timed_once_and_alone():
    class Slow(Timed):
        def forward(self, samples):
            self.clock.now += 70.0
            return super().forward(samples)

    runner = Slow(a_model("m", default_steps=2), Clock())
    found = trials(runner)
    run(found.parts(runner))
    assert [n for n, _ in found.costs["m"].steps] == [1]
    assert runner.clock.now == pytest.approx(71.1 + 0.5 * (1 + TRIES))


def test_a_worker_that_is_never_idle_learns_by_the_steps_of_its_jobs():
    runner = a_runner()
    found = trials(runner)
    for seconds in (9.0, 2.0, 3.0):
        found.observe(runner.model, 2, seconds)
    assert found.costs["m"] == Cost(steps=((2, 2.0),), is_measured=True)


def test_steps_of_other_batches_add_to_what_is_known_until_another_worker_knows_more():
    runner = a_runner()
    found = trials(runner)
    for images, seconds in [(4, 5.0), (1, 2.0), (4, 6.0), (1, 3.0)] * 3:
        found.observe(runner.model, images, seconds)
    own = Cost(steps=((1, 2.0), (4, 5.0)), is_measured=True)
    assert found.costs["m"] == own
    found.learn(runner.model, Cost(steps=((2, 9.0), (3, 9.0)), is_measured=True))
    assert found.costs["m"] == own, "as much is known here"
    more = Cost(steps=((1, 2.0), (2, 3.0), (4, 5.0)), is_measured=True)
    found.learn(runner.model, more)
    for _ in range(9):
        found.observe(runner.model, 3, 1.0)
    assert found.costs["m"] == more
    found.forget("m")
    assert found.untried(["m"]) == ("m",)


def test_a_trial_of_its_own_is_worth_more_than_what_its_jobs_have_shown():
    runner = a_runner()
    found = trials(runner)
    for _ in range(9):
        found.observe(runner.model, 3, 100.0)
    run(found.parts(runner))
    tried = found.costs["m"]
    assert [n for n, _ in tried.steps] == [1, 2, 4, 8]
    for _ in range(9):
        found.observe(runner.model, 3, 100.0)
    found.learn(runner.model, Cost(steps=tuple((n, 1.0) for n in range(1, 9)), is_measured=True))
    assert found.costs["m"] == tried


def test_a_model_under_the_same_name_is_measured_anew():
    runner = a_runner()
    found = trials(runner)
    run(found.parts(runner))
    found.forget("m")
    assert found.untried(["m"]) == ("m",)


def test_of_a_model_that_leaves_as_its_folder_is_another_nothing_is_learned():
    runner, other = a_runner(), a_runner(size_gib=9.0)
    models = {"m": runner.model}
    found = trials(runner, is_current=lambda model: models.get(model.name) == model)
    parts = found.parts(runner)
    next(parts)()
    found.observe(runner.model, 2, 9.0)
    models["m"] = other.model
    found.forget("m")
    run(parts)
    for _ in range(9):
        found.observe(runner.model, 2, 9.0)
    assert list(found.parts(runner)) == []
    assert found.untried(["m"]) == ("m",)
    for seconds in (3.0, 2.0, 3.0):
        found.observe(other.model, 2, seconds)
    assert found.costs["m"] == Cost(steps=((2, 2.0),), is_measured=True)


def test_a_step_that_cannot_be_noted_has_been_taken_all_the_same():
    def fail(model, cost):
        raise FileNotFoundError

    runner = a_runner()
    found = trials(runner, on_tried=fail)
    for _ in range(9):
        found.observe(runner.model, 2, 3.0)
    assert found.costs["m"] == Cost(steps=((2, 3.0),), is_measured=True)


def test_a_profile_says_what_it_knows_of_a_device_type(tmp_path):
    path = tmp_path / "profile.json"
    assert profiled(path, "cpu") == frozenset()
    path.write_text(json.dumps({"tau": {"cpu": {"m@0": 1.0, "m@5": 0.9, "n@5": 1.0}}}))
    assert profiled(path, "cpu") == {"m"}
    assert profiled(path, "gpu") == frozenset()
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=r"profile\.json"):
        profiled(path, "cpu")
