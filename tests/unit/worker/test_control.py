import gc
import time
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ControlUnavailable
from tests.jobs import a_job
from tests.unit.worker.fake import FakeRunner, FakeSample, value_of
from worker.control.client.remote_session import StepTiming
from worker.control.shared_memory import SharedMemory, open_arena
from worker.control.stale import Lag
from worker.diffusion.runner import NotReady
from worker.engine.engine import Engine

sizes = st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=30)


@given(sizes=sizes)
def test_blocks_of_an_arena_never_overlap(sizes):
    arena, held = SharedMemory(2048), []
    for size, is_released in sizes:
        block = arena.take(size)
        if block is None:
            assert held
            continue
        held.append(block)
        if is_released:
            held.pop(0).release()
        spans = sorted((each.begin, each.end) for each in held)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
        assert all(16 <= begin < end <= arena.size for begin, end in spans)


def test_another_process_opens_an_arena_by_its_place_and_no_other_arena():
    arena = SharedMemory(4096)
    block = arena.take(100)
    place = block.place(10, 3)
    memory = open_arena(place)
    memory[place.at : place.at + 3] = b"abc"
    assert arena.memory[block.begin + 10 : block.begin + 13] == b"abc"
    other = SharedMemory(4096)
    assert open_arena(msgspec.structs.replace(place, path=other.path)) is None
    del arena, block
    gc.collect()
    assert open_arena(place) is None


def test_a_link_is_slow_once_it_costs_a_tenth_of_a_step(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    fast, slow, busy = Lag(), Lag(), Lag()
    for _ in range(3):
        for lag, waited_s, transfer_s in ((fast, 0.3, 0.01), (slow, 0.3, 0.2), (busy, 0.0, 0.5)):
            timed = StepTiming(position=0, at=99.0, is_first=False)
            timed.note_answer(held_s=1.0 - transfer_s)
            timed.note_wait(waited_s)
            lag.note(step_s=1.0, lost_s=timed.lost_s)
    assert (fast.is_slow, slow.is_slow, busy.is_slow) == (False, True, False)


def test_a_link_is_not_slow_before_it_is_known():
    lag = Lag()
    lag.note(step_s=1.0, lost_s=0.5)
    assert lag.is_slow is None


@dataclass(slots=True, kw_only=True, eq=False)
class WaitingSample(FakeSample):
    """Waits for another process as long as its runner says."""

    runner: "WaitingRunner"

    def waits_for(self):
        if self.prompt != "waits":
            return None
        if self.runner.is_hopeless:
            raise ControlUnavailable("nobody came")
        return "another process" if self.runner.is_away else None

    def close(self):
        self.runner.closed.append(self.seed)


class WaitingRunner(FakeRunner):
    """Makes images of the prompt `waits` wait, and loses what they wait for when told to."""

    is_away = is_hopeless = is_lost = False

    def __init__(self):
        super().__init__()
        self.closed = []

    def open(self, request, seed, inputs=None):
        sample = super().open(request, seed, inputs)
        return WaitingSample(
            group=sample.group,
            rows=sample.rows,
            num_steps=sample.num_steps,
            seed=seed,
            prompt=request.prompt,
            value=sample.value,
            runner=self,
        )

    def forward(self, samples):
        if self.is_lost:
            self.is_lost, self.is_away = False, True
            raise NotReady("lost")
        return super().forward(samples)


def an_engine(runner, now=100.0):
    clock = [now]
    engine = Engine(max_slots=8, max_rows=16, slo_s=60, clock=lambda: clock[0])
    engine.attach(runner)
    return engine, clock


def test_an_image_that_waits_for_another_process_keeps_nobody_else_waiting():
    runner = WaitingRunner()
    engine, _ = an_engine(runner)
    waits, goes = (
        engine.add(a_job(p, prompt=p, seed=i), None) for i, p in enumerate(("waits", "goes"))
    )
    engine.step()
    runner.is_lost = True
    for _ in range(6):
        engine.step()
    assert goes.done() and not waits.done()
    assert runner.closed == [1]
    runner.is_away = False
    while engine.step():
        pass
    assert np.all(waits.result().images[0] == value_of(0, 4))
    assert runner.closed == [1, 0]


def test_a_deadline_that_passes_while_it_waits_says_what_for():
    runner = WaitingRunner()
    runner.is_away = True
    engine, clock = an_engine(runner)
    future = engine.add(a_job(prompt="waits"), 150.0)
    engine.step()
    clock[0] = 151.0
    engine.step()
    assert "while it waited for another process" in str(future.exception())
    assert runner.closed == [0]


def test_an_image_without_hope_fails_alone():
    runner = WaitingRunner()
    runner.is_hopeless = True
    engine, _ = an_engine(runner)
    waits, goes = (
        engine.add(a_job(p, prompt=p, seed=i), None) for i, p in enumerate(("waits", "goes"))
    )
    while engine.step():
        pass
    assert isinstance(waits.exception(), ControlUnavailable)
    assert goes.result().seeds == (1,)
