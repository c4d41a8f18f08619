"""What becomes of the errors of a model's calls."""

import pytest
from structlog.testing import capture_logs

from core.errors import EngineError, OutOfMemory
from tests.jobs import a_job
from tests.unit.worker.engine.test_engine import an_engine, run_out
from tests.unit.worker.fake import FakeRunner
from worker.diffusion.runner import NotReady
from worker.engine.faults import Fault, attempt, step_in_halves
from worker.engine.row_caps import RowCaps


def raising(error):
    def call():
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "is_memory", "is_logged"),
    [
        (ValueError("a poisoned call"), False, True),
        (EngineError("its own"), False, False),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True, False),
    ],
)
def test_an_error_of_a_call_is_a_value_and_logged_if_nobody_expects_it(error, is_memory, is_logged):
    with capture_logs() as logs:
        fault = attempt(raising(error), "decoding")
    assert isinstance(fault, Fault) and fault.is_memory is is_memory
    assert fault.error is error and error.__traceback__ is None
    assert [line["event"] for line in logs] == ["engine_call_failed"] * is_logged
    told = fault.engine_error("decoding")
    assert (isinstance(told, OutOfMemory) is is_memory and "decoding" in str(told)) or told is error


@pytest.mark.parametrize("where", ["forward", "advance"])
@pytest.mark.parametrize("poisoned", range(4))
def test_those_beside_a_poisoned_one_take_their_step_all_the_same(where, poisoned):
    engine = an_engine()
    names = [f"fail {where}" if number == poisoned else str(number) for number in range(4)]
    futures = [
        engine.add(a_job(f"j{n}", steps=3, prompt=name), None)
        for n, name in zip("abcd", names, strict=True)
    ]
    engine.step()
    assert [future.done() for future in futures] == [number == poisoned for number in range(4)]
    assert [slot.step for slot in engine.running] == [1, 1, 1]


def test_halves_that_fit_raise_the_cap_that_their_batch_has_lowered():
    engine = an_engine()
    for name in "abcd":
        engine.add(a_job(name, steps=3, guidance=1.0), None)
    engine.step()
    caps = RowCaps(4, patience=1)
    full = Fault(MemoryError(), is_memory=True)
    assert step_in_halves(engine.running, full, caps) == []
    assert not caps.lowered and [slot.step for slot in engine.running] == [2] * 4


def test_rows_that_fit_again_raise_the_cap_again():
    runner = FakeRunner(fits_rows=1)
    engine = an_engine(runner, max_rows=4)
    for name in "abcd":
        engine.add(a_job(name, steps=200, guidance=1.0), None)
    engine.step()
    runner.batches.clear()
    engine.step()
    assert [len(batch) for batch in runner.batches] == [1]
    runner.fits_rows = None
    run_out(engine)
    assert max(map(len, runner.batches)) > 1


class Fragmented(FakeRunner):
    """Has memory for a step once some is given back; is not ready then if it is told so."""

    is_ready = True

    def forward(self, samples):
        if not self.trims:
            raise self.memory_error
        if not self.is_ready:
            self.is_ready = True
            raise NotReady("nobody answers")
        return super().forward(samples)


@pytest.mark.parametrize("is_ready", [True, False])
def test_one_image_without_memory_takes_its_step_once_some_is_given_back(is_ready):
    runner = Fragmented()
    runner.is_ready = is_ready
    engine = an_engine(runner)
    future = engine.add(a_job("a", seed=1, steps=2), None)
    run_out(engine)
    assert future.exception(0) is None
    assert runner.trims == 1 and runner.batches == [[1], [1]]
