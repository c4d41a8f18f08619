import gc
import time
import weakref

import pytest

from core.boards.fleet import Stage
from core.errors import BadWeights
from core.model import Model
from worker.families.noop import NoopRunner
from worker.process import model_loads
from worker.process.model_loads import ModelLoads

MODEL = Model(name="m", family="noop")


def test_a_load_is_seen_while_it_goes_on_with_how_much_of_it_is_over():
    seen = []

    def load(model):
        time.sleep(0.02)
        seen.append(loads.now)
        return NoopRunner(model)

    loads = ModelLoads(load, usual_s=lambda name: 0.04)
    loads.load(MODEL)
    (now,) = seen
    assert (now.model, now.stage, now.serves) == ("m", Stage.READING, True)
    assert 0.5 <= now.fraction < 1.0
    assert loads.now is None


def test_nobody_knows_how_far_the_first_load_is():
    loads = ModelLoads(NoopRunner)
    with loads.doing("m", Stage.READING):
        assert loads.now.fraction is None


def test_what_was_asked_for_is_told_of_before_what_is_tried():
    loads = ModelLoads(NoopRunner)
    with loads.doing("tried", Stage.READING, serves=False), loads.doing("asked", Stage.ROOM):
        assert loads.now.model == "asked"


@pytest.mark.parametrize("breaks", [True, False])
def test_a_process_whose_device_breaks_at_a_load_ends(breaks):
    class AcceleratorError(RuntimeError):
        pass

    def load(model):
        raise (AcceleratorError if breaks else BadWeights)("unet: gone")

    died = []
    with pytest.raises((AcceleratorError, BadWeights)):
        ModelLoads(load, die=lambda: died.append(True)).load(MODEL)
    assert died == [True] * breaks


def test_how_long_it_took_is_noted():
    noted = []
    ModelLoads(NoopRunner, on_loaded=lambda *of: noted.append(of)).load(MODEL)
    ((model, seconds),) = noted
    assert model is MODEL and seconds >= 0.0


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (BadWeights("m/unet: truncated"), "m/unet: truncated"),
        (KeyError("down_blocks"), "KeyError: 'down_blocks'"),
    ],
)
def test_why_a_model_could_not_be_loaded_is_kept_until_it_is(error, why):
    errors = [error]

    def load(model):
        if errors:
            raise errors.pop()
        return NoopRunner(model)

    loads = ModelLoads(load)
    with pytest.raises(type(error)):
        loads.load(MODEL)
    assert (loads.failures, loads.refused) == ({"m": why}, ("m",))
    loads.load(MODEL)
    assert (loads.failures, loads.refused) == ({}, ())


def test_a_load_that_goes_on_for_long_is_told_of_in_the_log(monkeypatch):
    monkeypatch.setattr(model_loads, "TELL_S", 0.0)
    loads = ModelLoads(NoopRunner)
    with loads.doing("m", Stage.READING) as doing:
        before = doing.told
        loads.tell()
        assert doing.told > before


def test_what_is_imported_before_a_load_is_no_part_of_its_time():
    noted, prepared_at = [], []

    def prepare(model):
        time.sleep(0.05)
        prepared_at.append(time.monotonic())

    loads = ModelLoads(
        NoopRunner, prepare=prepare, on_loaded=lambda model, seconds: noted.append(seconds)
    )
    loads.load(MODEL)
    assert noted[0] <= time.monotonic() - prepared_at[0]


class Part:
    """Takes memory for as long as anybody knows it."""


@pytest.fixture
def without_collector():
    """Have nothing go that holds itself."""
    gc.disable()
    yield
    gc.enable()


def test_a_load_that_fails_in_its_last_part_keeps_nothing_of_what_was_loaded(without_collector):
    parts, left = [], []

    def read(is_last):
        part = Part()
        parts.append(weakref.ref(part))
        if is_last:
            raise KeyError("decoder")
        return part

    def load(model):
        read_before = read(is_last=False)
        try:
            return read_before, read(is_last=True)
        except KeyError as error:
            raise BadWeights("m/vae: truncated") from error

    def give_back():
        left.append([part() for part in parts])

    known = None
    try:
        ModelLoads(load, give_back=give_back).load(MODEL)
    except BadWeights as error:
        known = weakref.ref(error)
    assert left == [[None, None]], "memory is given back once nobody holds it"
    assert known is not None and known() is None, "the error does not keep itself alive"


def test_a_load_fails_for_what_it_failed_for_whatever_comes_of_giving_back():
    def load(model):
        raise BadWeights("m/vae: truncated")

    def give_back():
        raise RuntimeError("the device is gone")

    with pytest.raises(BadWeights):
        ModelLoads(load, give_back=give_back).load(MODEL)
