"""Times of loads: never two of a model at once, since a device may have room for one."""

import gc
import weakref
from pathlib import Path

from core.model import Model
from profiling.times import timed_load


class FakeRunner:
    """Notes that it was closed; holds itself, as pipelines do."""

    def __init__(self) -> None:
        self.itself = self
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_a_model_is_gone_before_it_is_loaded_again() -> None:
    loaded: list[weakref.ref[FakeRunner]] = []

    def load(*_: object, **__: object) -> FakeRunner:
        assert [each() for each in loaded] == [None] * len(loaded)
        runner = FakeRunner()
        loaded.append(weakref.ref(runner))
        return runner

    gc.disable()  # what a cycle holds stays until somebody collects
    try:
        model = Model(name="m", family="sdxl")
        runner, seconds = timed_load(Path("m"), model, device="cpu", dtype="float32", load=load)
    finally:
        gc.enable()
    assert len(loaded) == 2
    assert runner is loaded[1]() and not runner.is_closed
    assert seconds >= 0
