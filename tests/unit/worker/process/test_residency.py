from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread

import pytest

from core.boards.need import Need
from core.boards.plan import WorkerAssignment
from core.errors import BadWeights
from core.model import Model
from worker.families.noop import NoopRunner
from worker.process.model_loads import ModelLoads
from worker.process.residency import Residency

MODELS = {name: Model(name=name, family="noop", size_gib=1.0) for name in ("a", "b", "c")}


A, B = Need(weights_gib=1.0), Need(weights_gib=1.0, work_gib=9.0)


class Log:
    """Notes in which order models and queues come and go."""

    is_busy = False

    def __init__(self):
        self.lines, self.bad = [], set()
        self.names = ()
        self.busy = {}  # model that jobs are still made with -> its future
        self.during_load = lambda: None

    def load(self, model):
        if model.name in self.bad:
            raise BadWeights(f"{model.name}: no such file")
        self.lines.append(f"load {model.name}")
        self.during_load()
        return NoopRunner(model)

    def attach(self, runner):
        self.lines.append(f"attach {runner.model.name}")

    def detach(self, name):
        self.lines.append(f"detach {name}")
        gone = Future()
        self.busy[name] = gone
        if not self.is_busy:
            gone.set_result(None)
        return gone

    def serve(self, names):
        self.names = tuple(names)
        self.lines.append("serve " + ",".join(names))
        done = Event()
        done.set()
        return done

    def assert_again(self):
        return None


def a_plan(model, version=1):
    return WorkerAssignment(version=version, model=model)


class Spare:
    """Keeps a model that nobody has asked for, if told to."""

    def __init__(self, *runners):
        self.runners = {runner.model.name: runner for runner in runners}
        self.timed, self.tended = [], 0

    @property
    def holds(self):
        return tuple(self.runners)

    def tend(self, models, resident, fits):
        self.tended += 1

    def take(self, name):
        return self.runners.pop(name, None)

    def leave(self):
        self.runners.clear()

    def time_served(self, runner):
        self.timed.append(runner.model.name)


def held_by(log, memory_gib=4.0, spare=None, **options):
    return Residency(
        models=MODELS,
        loads=ModelLoads(log.load),
        host=log,
        queues=log,
        memory_gib=memory_gib,
        spare=spare or Spare(),
        **options,
    )


def a_residency(log, memory_gib=4.0, **options):
    residency = held_by(log, memory_gib, **options)
    residency.hold(["a"])
    log.lines.clear()
    return residency


@pytest.fixture
def log():
    return Log()


def test_each_model_is_served_as_soon_as_it_is_there_whatever_the_next_one_takes(log):
    held_by(log).hold(["a", "b"])
    first, second = "serve gen.a", "serve gen.a,gen.b"
    assert log.lines == ["load a", "attach a", first, "load b", "attach b", second]


def test_a_model_that_cannot_be_loaded_is_named_and_the_others_are_served(log):
    log.bad.add("a")
    residency = held_by(log)
    assert residency.hold(["a", "b"])
    assert residency.resident == ("b",)
    assert residency._loads.failures == {"a": "a: no such file"}


def started(residency, log, read, preload=()):
    thread = Thread(target=residency.run, args=(read, preload))
    thread.start()
    while not residency.resident:
        thread.join(0.001)
    residency.stop()
    thread.join()


def test_a_worker_that_nobody_plans_for_begins_with_what_it_can_load(log):
    log.bad.add("a")
    residency = held_by(log)
    started(residency, log, lambda: None)
    assert residency.resident == ("b",)


def test_a_worker_that_is_planned_for_begins_with_the_model_that_it_is_given(log):
    given = iter([a_plan(None), a_plan(None)])
    residency = held_by(log)
    started(residency, log, lambda: next(given, a_plan("c")))
    assert log.lines[0] == "load c"


def test_a_worker_holds_what_it_is_told_to_preload(log):
    residency = held_by(log)
    started(residency, log, lambda: None, preload=("c",))
    assert residency.resident == ("c",)


def test_a_model_that_was_on_trial_is_not_loaded_again(log):
    spare = Spare(NoopRunner(MODELS["b"]))
    residency = a_residency(log, spare=spare)
    residency.follow(a_plan("b"))
    assert "load b" not in log.lines and residency.resident == ("b",)
    assert spare.timed == ["a", "b"]


def test_a_model_on_trial_goes_before_any_that_serves(log):
    spare = Spare(NoopRunner(MODELS["c"]))
    residency = a_residency(log, memory_gib=2.5, spare=spare)
    residency.follow(a_plan("b"))
    assert spare.holds == ()
    assert log.lines == ["load b", "attach b", "serve gen.a,gen.b", "serve gen.b", "detach a"]


def test_a_model_that_can_never_fit_is_refused_before_anything_goes_for_it(log):
    residency = a_residency(log, need=lambda model: B if model.name == "b" else A)
    residency.follow(a_plan("b"))
    assert residency.resident == ("a",) and log.lines == []
    assert "9.00 to make an image" in residency._loads.failures["b"]


def test_what_a_model_computes_counts_beside_its_weights(log):
    """Both would fit by their weights alone; one computes at a time."""
    residency = a_residency(log, memory_gib=4.0, need=lambda model: replace(A, work_gib=2.5))
    residency.follow(a_plan("b"))
    assert log.lines.index("detach a") < log.lines.index("load b")
    residency = a_residency(log, memory_gib=4.5, need=lambda model: replace(A, work_gib=2.5))
    residency.follow(a_plan("b"))
    assert log.lines.index("detach a") > log.lines.index("load b")


def test_the_next_model_is_served_before_the_last_one_goes(log):
    residency = a_residency(log)
    residency.follow(a_plan("b"))
    assert log.lines == ["load b", "attach b", "serve gen.a,gen.b", "serve gen.b", "detach a"]
    assert residency.resident == ("b",)


def test_a_model_goes_first_if_both_do_not_fit_and_its_queue_goes_before_it(log):
    residency = a_residency(log, memory_gib=1.5)
    residency.follow(a_plan("b"))
    assert log.lines == ["serve ", "detach a", "load b", "attach b", "serve gen.b"]


def test_nothing_happens_without_a_plan_or_without_a_part_in_it(log):
    residency = a_residency(log)
    residency.follow(None)
    residency.follow(a_plan(None))
    residency.follow(a_plan("a"))
    assert log.lines == []


def test_images_leave_latents_only_while_the_plan_says_that_somebody_takes_them(log):
    residency = a_residency(log)
    assert not residency.takes_latents
    residency.follow(replace(a_plan("a"), takes_latents=True))
    assert residency.takes_latents
    residency.follow(a_plan("a"))
    assert not residency.takes_latents


def test_a_model_that_cannot_be_loaded_is_tried_once_a_plan(log):
    residency = a_residency(log)
    log.bad.add("b")
    residency.follow(a_plan("b"))
    residency.follow(a_plan("b"))
    assert (residency.resident, residency._loads.refused) == (("a",), ("b",))
    log.bad.clear()
    residency.follow(a_plan("b", version=2))
    assert (residency.resident, residency._loads.refused) == (("b",), ())


def test_the_last_model_comes_back_if_it_had_to_go_for_nothing(log):
    residency = a_residency(log, memory_gib=1.5)
    log.bad.add("b")
    residency.follow(a_plan("b"))
    assert residency.resident == ("a",)
    assert log.names == ("gen.a",)


def test_a_model_that_is_not_on_disk_is_refused(log):
    residency = a_residency(log)
    residency.follow(a_plan("unknown"))
    assert residency.resident == ("a",)


def test_a_model_whose_jobs_are_still_made_does_not_keep_the_next_plan_waiting(log):
    log.is_busy = True
    residency = a_residency(log)
    residency.follow(a_plan("b"))
    residency.follow(a_plan("c", version=2))
    assert residency.resident == ("c",)


def test_one_that_takes_the_room_of_the_next_does(log):
    log.is_busy = True
    residency = a_residency(log, memory_gib=2.5)
    residency.follow(a_plan("b"))  # `a` is on its way out, and `c` does not fit beside both
    following = Thread(target=residency.follow, args=(a_plan("c", version=2),))
    following.start()
    while "b" not in log.busy and following.is_alive():
        following.join(0.001)
    following.join(0.05)
    assert following.is_alive()
    assert "load c" not in log.lines
    log.busy["a"].set_result(None)
    log.busy["b"].set_result(None)
    following.join(60.0)
    assert residency.resident == ("c",)


def test_whoever_listens_hears_of_models_that_come_and_go_at_once(log):
    heard = []
    residency = held_by(log, on_change=lambda: heard.append(residency.resident))
    residency.hold(["a"])
    residency.follow(a_plan("b"))
    assert heard == [("a",), ("a", "b"), ("b",)]


def test_a_model_whose_folder_is_another_goes_and_comes_again(log):
    residency = a_residency(log)
    residency._let_go(["a", "b"])
    assert residency.resident == () and log.lines == ["serve ", "detach a"]
    residency.follow(a_plan("a"))
    assert log.lines[2:4] == ["load a", "attach a"]


def test_models_that_come_or_go_or_are_on_trial_are_held_beside_what_serves(log):
    log.is_busy, seen = True, []
    spare = Spare(NoopRunner(MODELS["c"]))
    residency = a_residency(log, memory_gib=8.0, spare=spare)
    assert residency.held == {"a", "c"}
    log.during_load = lambda: seen.append(residency.held)
    residency.follow(a_plan("b"))
    assert seen == [{"a", "b", "c"}]
    assert residency.resident == ("b",) and residency.held == {"a", "b", "c"}
    log.busy["a"].set_result(None)
    assert residency.held == {"b", "c"}
    residency._let_go(["c"])
    assert residency.held == {"b"}


def test_a_model_that_could_not_be_loaded_is_not_held(log):
    residency = a_residency(log)
    log.bad.add("b")
    residency.follow(a_plan("b"))
    assert residency.held == {"a"}


def test_a_trial_that_begins_or_ends_is_heeded_at_once(log):
    spare = Spare()
    residency = a_residency(log, spare=spare)
    spare.runners["c"] = NoopRunner(MODELS["c"])
    residency._tend_trial()
    assert residency.held == {"a", "c"} and spare.tended == 1
    spare.runners.clear()
    residency._tend_trial()
    assert residency.held == {"a"}
