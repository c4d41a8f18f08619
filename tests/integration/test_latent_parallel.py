"""Does a worker of two ranks make the images of one, and go on when the second dies?"""

import multiprocessing
import os
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from diffusers import StableDiffusionXLControlNetPipeline

from bench.parts.local_controlnets import LocalControlNets
from core.errors import ConfigurationError
from core.job import Control, Task
from core.settings import Settings
from core.telemetry import metrics
from tests.control import ControlHouse, some_conditions
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_job, a_request
from tests.loras import ATTENTION, CONVOLUTIONS, factors
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.stock import Recorder, difference, engine_images
from worker.diffusion.runner import NotReady
from worker.families.load import load
from worker.lora.changes import Product
from worker.lora.mix import Lora, Mix
from worker.parallel import split_call as halving
from worker.parallel.link import Link
from worker.parallel.messages import PredictionFailed
from worker.parallel.rank_process import RankSpec, serve
from worker.parallel.second_rank import SecondRank
from worker.process.loading import Loading
from worker.trials.device_defaults import worker_type

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings(OF_DIFFUSERS)]

TOLERANCE = 1e-5
EDGES = Control(controlnet="edges", image="")
DEPTH = Control(controlnet="depth", image="", scale=0.5, end=0.5)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    return ControlHouse(
        tmp_path_factory.mktemp("ranks"), save_sdxl, StableDiffusionXLControlNetPipeline
    )


def spec_of(house):
    folder = house.folder / "base"
    return RankSpec(
        load=load, folder=folder, model=house.model, device="cpu", dtype="float32", threads=1
    )


@pytest.fixture(scope="module")
def shared(house):
    """A runner with a second rank."""
    recorder = house.recorder(LocalControlNets(house.residents()))
    second = SecondRank(spec_of(house), "cpu")
    second.start()
    recorder.runner.share(second)
    yield recorder, second
    recorder.close()


@pytest.fixture
def both(shared):
    """The same, with its second rank there."""
    recorder, second = shared
    wait_for(lambda: second.link is not None)
    return recorder


@pytest.fixture(scope="module")
def alone(house):
    return house.recorder(LocalControlNets(house.residents()))


def has_ended(pid):
    """Whoever takes over orphans may let them lie for a while."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition):
    deadline = time.monotonic() + 150.0
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def rows_called(recorder):
    """Rows of each call of the model in this process, from now on."""
    rows = []
    recorder.runner.unet.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    return rows


def a_mix(recorder, name, ends):
    drawn = factors(recorder.runner.overlays.adapters.shapes, ends, seed=ord(name), parts=["unet"])
    products = {at: Product(down, up.flatten(1), 0.5) for at, (down, up) in drawn.items()}
    return Mix.of([(Lora(name, products), 0.8)])


def images(recorder, made):
    """Make images in one batch: (request, brought, mix) of each."""
    runner = recorder.runner
    samples = [runner.begin(request, request.seed, brought, mix) for request, brought, mix in made]
    for _ in range(samples[0].num_steps):
        runner.advance(samples, runner.forward(samples))
    return [runner.image(sample).numpy() for sample in samples]


def test_each_rank_predicts_half_of_the_rows_to_the_bit(both):
    runner = both.runner
    samples = [runner.open(a_request(seed=seed), seed) for seed in range(2)]
    rows = rows_called(both)
    together = torch.cat(runner.forward(samples))
    assert rows == [2]
    packed = runner.packing.pack(samples)
    latents = runner.packing.rows(samples).inputs()
    times = [samples[0].sampler.time] * 2
    with torch.inference_mode():
        for own in ([0, 2], [1, 3]):
            assert torch.equal(runner.compute(latents[own], times, packed.take(own)), together[own])


def test_each_half_is_padded_to_a_bucket_of_its_own(both):
    runner = both.runner
    samples = [runner.open(a_request(seed=seed), seed) for seed in range(3)]
    expected, rows = torch.cat(runner.forward(samples)), rows_called(both)
    runner.packing.buckets = (4, 8)
    runner.packing.forget()
    try:
        padded = torch.cat(runner.forward(samples))
    finally:
        runner.packing.buckets = ()
        runner.packing.forget()
    assert rows == [4]
    assert difference(padded, expected) <= TOLERANCE


def test_images_of_all_kinds_come_and_go_in_halves(house, both, alone):
    kinds = [{}, {"guidance": 1.0}, {"controls": (EDGES, DEPTH)}, {"scheduler": "heun"}, {}]
    jobs = [
        a_job(f"j{i}", at=float(i), model=house.model.name, seed=i, steps=3 + i % 3, **kind)
        for i, kind in enumerate(kinds)
    ]
    arrivals = [(i // 2, job) for i, job in enumerate(jobs)]
    inputs = {jobs[2].id: some_conditions(2)}
    rows = rows_called(both)
    made, expected = (engine_images(each, arrivals, inputs=inputs) for each in (both, alone))
    assert max(rows) <= 5  # of nine
    for job in jobs:
        assert difference(made[job.id][0], expected[job.id][0]) <= TOLERANCE


def test_rows_have_loras_of_their_own_in_both_halves(both, alone):
    def some(recorder):
        mixes = [a_mix(recorder, "a", ATTENTION), a_mix(recorder, "b", CONVOLUTIONS), Mix()]
        made = [(a_request(seed=seed), None, mix) for seed, mix in enumerate(mixes)]
        return [*images(recorder, made), *images(recorder, made[:1])]  # then one alone: merged

    for image, expected in zip(some(both), some(alone), strict=True):
        assert difference(image, expected) <= TOLERANCE


def test_an_edit_under_its_mask_stays_with_the_first_rank(house, tmp_path):
    def some(second_device):
        settings = Settings(models_dir=house.folder, data_dir=tmp_path, second_device=second_device)
        loading = Loading(settings)
        recorder = Recorder(loading.load(replace(house.model, name="base")))
        rows = rows_called(recorder)
        edit = replace(a_request(steps=6), task=Task.EDIT, edit=EDIT)
        made = [(edit, some_inputs(1), Mix()), (a_request(steps=6, seed=3), None, Mix())]
        twice = images(recorder, made) + images(recorder, made)  # recorded, then reused
        loading.close()
        return twice, rows

    (divided, half), (whole, rows) = some("cpu"), some("")
    assert (set(half), set(rows)) == ({3, 2}, {5, 4})
    for image, expected in zip(divided, whole, strict=True):
        assert difference(image, expected) <= TOLERANCE


def test_a_worker_with_a_second_rank_is_another_type_of_device(house):
    assert worker_type(Settings(device="cpu")) == "cpu"
    assert worker_type(Settings(device="cpu", second_device="cpu")) == "2 x cpu"
    spec = replace(spec_of(house), device="cuda:99")
    with pytest.raises(ConfigurationError, match="ATELIER_SECOND_DEVICE: 'cuda:99'"):
        SecondRank(spec, "cpu")


def test_each_half_of_an_image_has_controlnets_of_its_own(house, shared, monkeypatch):
    both, _ = shared
    opened = []

    class Noted(LocalControlNets):
        def open(self, opening):
            opened.append(opening)
            return super().open(opening)

    monkeypatch.setattr(both.runner.overlays._steering, "_controlnets", Noted(house.residents()))
    job = a_job(model=house.model.name, controls=(EDGES, DEPTH))
    inputs = {job.id: some_conditions(2)}
    image = engine_images(both, [(0, job)], inputs=inputs)[job.id][0]
    assert [len(opening.text) for opening in opened] == [1, 1, 1, 1]
    assert [opening.controlnet for opening in opened] == ["edges", "edges", "depth", "depth"]
    assert difference(image, house.stock_image(job.request, inputs[job.id])) <= 1e-5
    opened.clear()
    without = a_job(model=house.model.name, controls=(EDGES,), guidance=1.0)
    engine_images(both, [(0, without)], inputs={without.id: some_conditions(1)})
    assert [len(opening.text) for opening in opened] == [1]


def test_a_step_that_controlnets_fail_is_given_up_by_both(house, both, monkeypatch):
    steering = both.runner.overlays._steering
    request = a_request(controls=(EDGES,))
    sample = both.runner.begin(request, 0, some_conditions(1), Mix())
    expected = both.runner.forward([sample])[0]
    rows = rows_called(both)

    class Lost(LocalControlNets):
        def answer(self, ask):
            raise NotReady("lost")

    monkeypatch.setattr(steering, "_controlnets", Lost(house.residents()))
    with pytest.raises(NotReady):
        both.runner.forward([sample])
    monkeypatch.undo()
    assert torch.equal(both.runner.forward([sample])[0], expected)
    assert rows == [1, 1]


def test_one_image_that_the_second_device_has_no_memory_for_is_made_by_the_first():
    failed = PredictionFailed(reason="CUDA out of memory", is_memory=True)
    link = SimpleNamespace(receive=lambda patience_s: (failed, []))
    with pytest.raises(MemoryError):  # a smaller batch may do
        halving._Exchange(link=link, told=None, is_of_one=False).answer(1.0)
    with pytest.raises(halving._HalfFailed):  # which `predict` takes for none of its rows
        halving._Exchange(link=link, told=None, is_of_one=True).answer(1.0)


@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["dies", "hangs"])
def test_an_image_survives_the_second_rank_that_is_lost_and_the_next_one_helps(
    house, shared, alone, fate, monkeypatch
):
    monkeypatch.setattr(halving, "LEAST_PATIENCE_S", 4.0)
    both, second = shared
    wait_for(lambda: second.link is not None)
    before = metrics.ranks_lost._value.get()
    job = a_job(model=house.model.name, steps=6)
    expected = engine_images(alone, [(0, job)])[job.id][0]
    calls = []

    def lose_once(*_):
        calls.append(second.link)
        if len(calls) == 3:
            os.kill(second.pid, fate)

    hook = both.runner.unet.register_forward_pre_hook(lose_once)
    image = engine_images(both, [(0, job)])[job.id][0]
    hook.remove()
    assert difference(image, expected) <= TOLERANCE
    wait_for(lambda: metrics.ranks_lost._value.get() == before + 1)
    wait_for(lambda: second.link is not None)
    rows = rows_called(both)
    assert difference(engine_images(both, [(0, job)])[job.id][0], expected) <= TOLERANCE
    assert set(rows) == {1}


def be_the_first_rank(spec, told):
    """Without a server of forks: that would import torch once more."""
    ours, theirs = multiprocessing.Pipe()
    with os.fdopen(os.memfd_create("ranks"), "w+b") as meeting:
        path = Path(f"/proc/{os.getpid()}/fd/{meeting.fileno()}")
        second = os.fork()
        if second == 0:
            ours.close()
            serve(theirs, spec, path)
        theirs.close()
        ours.recv()
        Link.open(ours, path, 0, torch.device("cpu"))
        told.send(second)
        os.kill(os.getpid(), signal.SIGKILL)


def test_the_second_rank_ends_with_the_first(house):
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    first = context.Process(target=be_the_first_rank, args=(spec_of(house), theirs))
    first.start()
    second = ours.recv()
    first.join()
    wait_for(lambda: has_ended(second))
