from concurrent.futures import Future
from dataclasses import replace
from threading import Event, Thread

import pytest

from core.boards.plan import Plan
from core.errors import BadWeights
from core.model import Model
from worker.families.noop import NoopRunner
from worker.process.residency import Residency

MODELS = {name: Model(name=name, family="noop", size_gib=1.0) for name in ("a", "b", "c")}


class Log:
    """Notes in which order models and queues come and go."""

    is_busy = False

    def __init__(self):
        self.lines, self.bad = [], set()
        self.names = ()
        self.busy = {}  # model that jobs are still made with -> its future

    def load(self, model):
        if model.name in self.bad:
            raise BadWeights(f"{model.name}: no such file")
        self.lines.append(f"load {model.name}")
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
    return Plan(
        version=version,
        fence=1,
        made_at=0.0,
        policy="p",
        assignments={"w": model, "other": "c"},
        pasm=(),
    )


def a_residency(log, memory_gib=4.0):
    residency = Residency(
        name="w", models=MODELS, load=log.load, host=log, queues=log, memory_gib=memory_gib
    )
    residency.hold(["a"])
    log.lines.clear()
    return residency


@pytest.fixture
def log():
    return Log()


def test_models_are_attached_before_their_queues_are_served(log):
    Residency(name="w", models=MODELS, load=log.load, host=log, queues=log, memory_gib=4.0).hold(
        ["a", "b"]
    )
    assert log.lines == ["load a", "attach a", "load b", "attach b", "serve gen.a,gen.b"]


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
    residency.follow(Plan(version=1, fence=1, made_at=0, policy="p", assignments={}, pasm=()))
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
    assert (residency.resident, residency.refused) == (("a",), ("b",))
    log.bad.clear()
    residency.follow(a_plan("b", version=2))
    assert (residency.resident, residency.refused) == (("b",), ())


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
    following.join(0.05)
    assert following.is_alive()
    assert "load c" not in log.lines
    log.busy["a"].set_result(None)
    log.busy["b"].set_result(None)
    following.join(5.0)
    assert residency.resident == ("c",)


def test_whoever_listens_hears_of_models_that_come_and_go_at_once(log):
    heard = []
    residency = Residency(
        name="w",
        models=MODELS,
        load=log.load,
        host=log,
        queues=log,
        memory_gib=4.0,
        on_change=lambda: heard.append(residency.resident),
    )
    residency.hold(["a"])
    residency.follow(a_plan("b"))
    assert heard == [("a", "b"), ("b",)]
