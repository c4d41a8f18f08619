import json

import pytest

from core.errors import BadWeights, ConfigurationError
from core.model import Model
from worker.diffusion.cost_trial import TRIES, Trials, cost_of, profiled
from worker.families.noop import NoopRunner


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


class Loader:
    """Loads what it is told to, and keeps what it loaded."""

    def __init__(self, *broken):
        self.broken, self.loaded = broken, []

    def __call__(self, model):
        if model.name in self.broken:
            raise BadWeights(f"{model.name}: no weights")
        self.loaded.append(Timed(model, Clock()))
        return self.loaded[-1]


def trials(load, *known):
    return Trials(load, profiled=known, device="cpu")


def test_a_cost_is_what_steps_of_several_images_take_and_what_comes_beside_them():
    clock = Clock()
    cost = cost_of(Timed(a_model("m", default_steps=2), clock), clock)
    assert cost.is_measured
    assert cost.fixed_s == pytest.approx(0.5)
    assert [n for n, _ in cost.steps] == [1, 4]
    assert [seconds for _, seconds in cost.steps] == pytest.approx([1.1, 1.4])
    assert TRIES > 1


def test_a_model_is_tried_before_it_serves_and_once():
    load, told = Loader(), []
    found = Trials(load, profiled=(), device="cpu", on_tried=lambda *of: told.append(of))
    found.load(a_model("m"))
    first = found.costs["m"]
    found.load(a_model("m"))
    assert found.costs == {"m": first}
    assert told == [(a_model("m"), first)]
    assert not any(runner.is_closed for runner in load.loaded)


def test_what_a_profile_knows_is_not_tried():
    found = trials(Loader(), "m")
    found.load(a_model("m"))
    assert (found.costs, found.untried(["m", "n"])) == ({}, ("n",))


def test_others_are_tried_and_let_go_of_where_they_fit():
    load = Loader("broken")
    found = trials(load, "known")
    names = ("known", "broken", "small")
    models = [a_model(name) for name in names] + [a_model("huge", size_gib=9.0)]
    found.run(models, memory_gib=4.0)
    assert [runner.model.name for runner in load.loaded] == ["small"]
    assert load.loaded[0].is_closed
    assert set(found.costs) == {"small"}
    assert found.untried([model.name for model in models]) == ("broken", "huge")


def test_a_model_that_fails_its_trial_stays_untried():
    def load(model):
        runner = Timed(model, Clock())
        runner.forward = lambda samples: 1 / 0
        return runner

    found = trials(load)
    assert found.load(a_model("m")).model.name == "m"
    assert found.untried(["m"]) == ("m",)


def test_a_profile_says_what_it_knows_of_a_device_type(tmp_path):
    path = tmp_path / "profile.json"
    assert profiled(path, "cpu") == frozenset()
    path.write_text(json.dumps({"tau": {"cpu": {"m@0": 1.0, "m@5": 0.9, "n@5": 1.0}}}))
    assert profiled(path, "cpu") == {"m"}
    assert profiled(path, "gpu") == frozenset()
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=r"profile\.json"):
        profiled(path, "cpu")
