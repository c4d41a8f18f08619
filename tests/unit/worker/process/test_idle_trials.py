from concurrent.futures import Future

from core.errors import BadWeights
from core.model import Model
from worker.families.noop import NoopRunner
from worker.process.idle_trials import IDLE_S, IdleTrials
from worker.process.model_loads import ModelLoads
from worker.trials.cost_trial import Trials

MODELS = {name: Model(name=name, family="noop") for name in ("a", "b", "c")}


class Host:
    """Times what it is given when it is told to."""

    def __init__(self):
        self.tasks, self.dropped = {}, []

    def when_idle(self, model, parts):
        self.tasks[model.name] = (parts, Future())
        return self.tasks[model.name][1]

    def drop_idle(self, name):
        self.dropped.append(name)
        if name in self.tasks and not (ended := self.tasks[name][1]).done():
            ended.set_result(None)

    def run(self, name):
        parts, ended = self.tasks[name]
        for part in parts:
            part()
        ended.set_result(None)


class Closing(NoopRunner):
    is_closed = False

    def close(self):
        self.is_closed = True


class World:
    def __init__(self, *broken, known=()):
        self.now, self.is_idle, self.loaded = 0.0, True, []
        self.broken, self.host = broken, Host()
        self.trials = Trials(profiled=known, clock=lambda: self.now)
        self.loads = ModelLoads(self.load)
        self.idle = IdleTrials(
            trials=self.trials,
            loads=self.loads,
            host=self.host,
            worker="w1@h",
            is_idle=lambda: self.is_idle,
            clock=lambda: self.now,
        )

    def load(self, model):
        if model.name in self.broken:
            raise BadWeights(f"{model.name}: no weights")
        self.loaded.append(Closing(model))
        return self.loaded[-1]

    def tend(self, after_s=0.0, fits=lambda name: True):
        self.now += after_s
        self.idle.tend(MODELS, ("a",), fits)
        if self.idle._trial is not None:  # loaded in a thread
            self.idle._trial.loaded.exception(10.0)

    def begin(self):
        self.tend()
        self.tend(after_s=IDLE_S)


def test_an_idle_worker_tries_what_nobody_knows_beside_what_it_serves():
    world = World(known=("b",))
    world.begin()
    assert world.idle.holds == ("c",)
    world.tend()
    world.host.run("c")
    world.tend()
    assert world.trials.untried(MODELS) == ("a",)  # which serves, and is timed as it does
    assert world.idle.holds == () and world.loaded[0].is_closed
    world.tend(after_s=IDLE_S)
    assert world.idle.holds == ()


def test_a_worker_with_jobs_tries_nothing():
    world = World()
    world.tend()
    world.is_idle = False
    world.tend(after_s=IDLE_S)
    world.is_idle = True
    world.tend(after_s=IDLE_S)
    assert world.idle.holds == ()  # it has been idle since now
    world.tend(after_s=IDLE_S)
    assert world.idle.holds


def test_what_does_not_fit_beside_the_others_is_not_tried():
    world = World()
    world.tend()
    world.tend(after_s=IDLE_S, fits=lambda name: name == "c")
    assert world.idle.holds == ("c",)


def test_a_model_on_trial_that_is_asked_for_is_given_away():
    world = World()
    world.begin()
    world.tend()
    (name,) = world.idle.holds
    runner = world.idle.take(name)
    assert runner is world.loaded[0] and not runner.is_closed
    assert world.host.dropped == [name] and world.idle.holds == ()
    assert world.idle.take("a") is None


def test_a_model_on_trial_goes_when_its_memory_is_needed():
    world = World()
    world.begin()
    world.idle.leave()
    assert world.loaded[0].is_closed and world.idle.holds == ()


def test_a_model_that_cannot_be_loaded_is_named_and_not_tried_again():
    world = World("b", "c")
    world.begin()
    world.tend()
    world.tend(after_s=IDLE_S)
    world.tend()
    world.tend(after_s=IDLE_S)
    assert set(world.loads.failures) == {"b", "c"} and world.idle.holds == ()


def test_a_model_that_fails_its_trial_is_named_and_let_go_of():
    world = World(known=("b",))
    world.begin()
    world.tend()
    world.host.tasks["c"][1].set_exception(ValueError("not finite"))
    world.tend()
    assert world.loads.failures == {"c": "ValueError: not finite"}
    assert world.loaded[0].is_closed


def test_workers_begin_with_different_models():
    first = set()
    for worker in range(16):
        world = World()
        world.idle._worker = f"w{worker}@h"
        first.add(world.idle._choose(MODELS, ("a",), lambda name: True))
    assert first == {"b", "c"}
