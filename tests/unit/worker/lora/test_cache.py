"""Jobs whose LoRAs are on their way: what they wait for, and what becomes of them."""

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
import torch

from catalog.lora.bounds import Bounds
from catalog.lora.parse import parse
from core.errors import EngineError, LoraUnavailable, ObjectsUnavailable
from core.job import Quality
from core.uploads.lora import AppliedLora
from tests.jobs import a_job, a_request
from tests.loras import ATTENTION, TEXT, as_bytes, factors, save_peft
from tests.models import OF_DIFFUSERS, save_sdxl
from worker.engine.engine import Engine
from worker.families.load import load
from worker.lora.cache import LoraCache
from worker.lora.mix import PLAIN, Lora, Mix

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


class Store:
    """Gives a LoRA when it is told to."""

    def __init__(self):
        self.asked = []  #: id and answer

    def load(self, use, shapes):
        self.asked.append((use.id, Future()))
        return self.asked[-1][1]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return load(folder, save_sdxl(folder), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def lora(runner, tmp_path_factory):
    """What a loader answers with: a file, and what it holds."""
    path = tmp_path_factory.mktemp("loras") / "a.safetensors"
    save_peft(path, factors(runner.overlays.adapters.shapes, ATTENTION + TEXT))
    data = path.read_bytes()
    return as_bytes(data), parse(data, runner.overlays.adapters.shapes)


@pytest.fixture
def store(runner):
    store = Store()
    runner.overlays.use_loras(LoraCache(store, 1000))
    return store


class Refuses:
    """Has no file descriptor left to load anything with."""

    def load(self, use, shapes):
        raise OSError(24, "Too many open files")


def a_use(name="a", **changes):
    of = {"key": f"t/loras/{name}", "models": ("tiny",), "size_bytes": 100, "sha256": "ab"}
    return AppliedLora(id=name, **of | changes)


def an_engine(runner, **changes):
    engine = Engine(max_slots=4, max_rows=8, slo_s=60, **changes)
    engine.attach(runner)
    return engine


def steps(engine, job_id):
    return engine.progress()[job_id].step


def test_a_job_starts_without_its_loras_and_waits_at_their_bound(runner, store, lora):
    engine = an_engine(runner)
    made = engine.add(a_job("a", steps=10, loras=(a_use(bound=20),)), None)
    for _ in range(8):
        engine.step()
    assert steps(engine, "a") == 4
    store.asked[0][1].set_result(lora)
    while engine.step():
        pass
    assert made.result().images


def test_a_job_does_without_a_lora_as_long_as_was_measured_if_its_owner_does_not_say(runner):
    bounds = Bounds(bounds={"tiny": {"ab": 20}, "other": {"cd": 20}})
    shelf = LoraCache(Store(), 1000, bounds)
    for use, bound in (
        (a_use(), 20),
        (a_use(bound=0), 0),
        (a_use(bound=30), 30),
        (a_use(sha256="cd"), 0),
    ):
        awaited = shelf.ask(a_request(model="tiny", loras=(use,)), runner.overlays.adapters.shapes)
        assert awaited.bound == bound


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"loras": (a_use(bound=50),), "quality": Quality.EXACT},
        {"loras": (a_use(bound=50), a_use("b"))},
    ],
)
def test_a_job_that_may_not_start_without_them_waits_at_once(runner, store, changes):
    engine = an_engine(runner)
    engine.add(a_job("a", **{"loras": (a_use(),)} | changes), None)
    engine.step()
    assert steps(engine, "a") == 0


def test_others_go_on_while_one_waits(runner, store):
    engine = an_engine(runner)
    engine.add(a_job("a", loras=(a_use(),)), None)
    other = engine.add(a_job("b", at=1.0), None)
    for _ in range(200):  # it is decoded in slices
        if not other.done():
            engine.step()
    assert other.done() and steps(engine, "a") == 0


def test_what_comes_in_time_is_as_if_it_had_been_there(runner, store, lora):
    request = a_request(loras=(a_use(),))
    waiting = runner.open(request, 0)
    assert waiting.waits_for() == "its LoRAs"
    store.asked[0][1].set_result(lora)
    assert waiting.waits_for() is None
    at_once = runner.open(request, 0)
    assert at_once.awaited is None and at_once.mix != PLAIN
    assert (runner.forward([waiting])[0] == runner.forward([at_once])[0]).all()
    assert waiting.mix == at_once.mix


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (EngineError("LoRA a is gone from the store"), "is gone"),
        (ObjectsUnavailable("connection refused"), "a could not be loaded: connection refused"),
        (RuntimeError("secret"), "a could not be loaded: RuntimeError"),
    ],
)
def test_what_cannot_be_loaded_fails_its_job_with_the_cause_and_no_other(
    runner, store, error, reason
):
    engine = an_engine(runner)
    made = engine.add(a_job("a", loras=(a_use(bound=50),)), None)
    other = engine.add(a_job("b", at=1.0), None)
    engine.step()
    store.asked[0][1].set_exception(error)
    while engine.step():
        pass
    with pytest.raises(EngineError, match=reason):
        made.result()
    assert other.result().images
    assert runner.open(a_request(loras=(a_use(),)), 0).awaited, "it is tried again"
    assert len(store.asked) == 2


def test_a_job_that_waits_is_late_in_time(runner, store):
    now = [0.0]
    engine = an_engine(runner, clock=lambda: now[0])
    made = engine.add(a_job("a", loras=(a_use(),)), 5.0)
    engine.step()
    now[0] = 6.0
    engine.step()
    with pytest.raises(LoraUnavailable, match="while it waited for its LoRAs"):
        made.result()


def test_the_engine_sleeps_while_all_wait_and_wakes_when_something_comes(runner, store, lora):
    engine = an_engine(runner)
    engine.start()
    made = engine.add(a_job("a", loras=(a_use(),)), None)
    while not store.asked:
        pass
    store.asked[0][1].set_result(lora)
    assert made.result(timeout=60).images
    engine.close()


def test_those_used_longest_ago_leave_and_images_keep_theirs(runner, lora):
    store = Store()
    shelf = LoraCache(store, 250)
    shapes = runner.overlays.adapters.shapes
    requests = {name: a_request(loras=(a_use(name),)) for name in "abc"}
    awaited = {name: shelf.ask(requests[name], shapes) for name in "ab"}
    shelf.ask(requests["a"], shapes)
    awaited["c"] = shelf.ask(requests["c"], shapes)
    assert shelf.num_bytes() == 200
    for _, answer in store.asked:
        answer.set_result(lora)
    assert all(isinstance(each.mix().loras[0], Lora) for each in awaited.values())
    assert shelf.ask(requests["a"], shapes).is_there
    assert not shelf.ask(requests["b"], shapes).is_there


def test_what_cannot_even_be_asked_for_fails_at_once_and_may_be_asked_for_again():
    shelf = LoraCache(Refuses(), 1000)
    for _ in range(2):
        awaited = shelf.ask(a_request(loras=(a_use(),)), {})
        assert awaited.is_there
        with pytest.raises(EngineError, match="a could not be loaded: OSError"):
            awaited.mix()
        assert shelf.num_bytes() == 0


def test_a_model_of_other_layers_has_its_loras_read_anew_under_the_name_of_the_old_one():
    store, request = Store(), a_request(loras=(a_use(),))
    shelf = LoraCache(store, 1000)
    old, new = {"unet.conv_in": (8, 4, 3, 3)}, {"unet.conv_in": (16, 4, 3, 3)}
    first = shelf.ask(request, old).loading
    assert shelf.ask(request, dict(old)).loading == first
    second = shelf.ask(request, new).loading
    assert second != first and shelf.ask(request, new).loading == second
    assert (len(store.asked), shelf.num_bytes()) == (2, 100)
    store.asked[0][1].set_exception(EngineError("too late"))
    assert shelf.ask(request, new).loading == second


def test_while_loras_are_in_the_text_encoders_no_other_thread_encodes(runner, lora):
    mix = Mix.of([(Lora.of("a", *lora), 1.0)])
    plain = a_request(prompt="a plain prompt")
    encode = runner.encoding(plain)
    with ThreadPoolExecutor(1) as other:
        with runner.overlays.adapters.reading(mix):
            encoded = other.submit(encode)
            assert not wait([encoded], 0.1).done
        encoded.result(60)
    ahead = runner.open(plain, 0).conditioning.text
    runner.prompts.clear()
    assert torch.equal(ahead, runner.open(plain, 0).conditioning.text)


def test_a_prompt_that_is_read_with_loras_is_not_encoded_ahead(runner):
    assert runner.encoding(a_request(prompt="another", loras=(a_use(),))) is None


def test_the_same_at_another_strength_is_not_loaded_again(runner, store, lora):
    request = a_request(loras=(a_use(scale=0.5),))
    runner.open(request, 0)
    store.asked[0][1].set_result(lora)
    again = runner.open(replace(request, loras=(a_use(scale=2.0),)), 0)
    assert again.mix.key == (("a", 2.0),)
    assert len(store.asked) == 1


@pytest.mark.parametrize("quality", Quality)
def test_loras_of_an_exact_image_are_applied_in_one_way(runner, store, lora, quality):
    request = a_request(loras=(a_use(),), quality=quality)
    waiting = runner.open(request, 0)
    store.asked[0][1].set_result(lora)
    assert waiting.awaited.mix().is_fixed == (quality is Quality.EXACT)
