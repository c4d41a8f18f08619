"""Parity, the law and the discipline of streams and memory, on CUDA with tiny models."""

import gc
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.parts.subject import stock_pipeline
from catalog.masking.config import MaskingConfig
from core.errors import JobCanceled, OutOfMemory
from core.family import SAMPLERS
from core.job import Task
from tests.integration.test_edit_parity import some_inputs
from tests.integration.test_edit_reuse import EDIT
from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import engine_images, load_recorder, stock_image
from worker.diffusion.runner import Borrowed
from worker.engine.engine import Engine
from worker.families.load import load
from worker.masking.activations import Activations

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings(OF_DIFFUSERS)]

#: (largest, mean) difference of images in [0, 1]. Kernels are chosen by batch size, so a row rounds
#: differently alone: by 2^-11 of each result in float16, by 2^-8 in bfloat16.
TOLERANCE = {"float32": (1e-3, 1e-4), "float16": (5e-2, 5e-3), "bfloat16": (2e-1, 2e-2)}

#: Samplers that draw no noise between steps: nothing of theirs has to come from the host.
DETERMINISTIC = ["euler", "ddim", "dpm++2m", "dpm++2m-karras", "pndm", "heun"]


@pytest.fixture(scope="module", params=["sdxl", "sd"])
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return folder, {"sdxl": save_sdxl, "sd": save_sd}[request.param](folder)


@pytest.fixture(params=TOLERANCE)
def subject(request, saved, device):
    folder, model = saved
    return load_recorder(folder, model, device=device, dtype=request.param), request.param


def assert_alike(image, expected, dtype):
    largest, mean = TOLERANCE[dtype]
    apart = np.abs(image.astype(np.float64) - expected.astype(np.float64))
    assert apart.max() <= largest and apart.mean() <= mean


def a_mixed_batch(model, samplers):
    return [
        (
            i,
            a_job(
                f"j{i}",
                at=float(i),
                model=model.name,
                seed=i,
                steps=5 + i % 4,
                guidance=1.0 + 2 * (i % 3),
                height=32 + 16 * (i % 2),
                scheduler=sampler,
            ),
        )
        for i, sampler in enumerate(samplers)
    ]


def test_images_are_the_stock_pipelines_images(subject):
    recorder, dtype = subject
    pipe = stock_pipeline(recorder.runner)
    own = pipe.scheduler
    jobs = a_mixed_batch(recorder.model, [None, *SAMPLERS])
    made = engine_images(recorder, jobs)
    for _, job in jobs:
        assert_alike(made[job.id][0], stock_image(pipe, own, job.request), dtype)


def test_an_image_does_not_depend_on_its_companions(subject):
    recorder, dtype = subject
    jobs = a_mixed_batch(recorder.model, SAMPLERS)
    together = engine_images(recorder, jobs)
    for _, job in jobs:
        alone = engine_images(recorder, [(0, job)])
        assert_alike(together[job.id][0], alone[job.id][0], dtype)


def test_a_seed_means_the_same_on_both_devices(saved, device):
    folder, model = saved
    jobs = [(0, a_job(model=model.name, seed=7))]
    on_host = engine_images(load_recorder(folder, model), jobs)
    on_device = engine_images(load_recorder(folder, model, device=device), jobs)
    assert_alike(on_device["j1"][0], on_host["j1"][0], "float32")


@pytest.mark.asks_cuda
@pytest.mark.parametrize("sampler", DETERMINISTIC)
def test_a_step_never_makes_the_host_wait(saved, no_wait, sampler, device):
    folder, model = saved
    runner = load(folder, model, device=device, dtype="float16")
    runner.overlays.lend()
    requests = [a_request(model=model.name, scheduler=sampler, steps=6) for _ in range(4)]
    samples = [runner.open(request, request.seed) for request in requests]
    with no_wait():
        for _ in range(5):
            runner.advance(samples, runner.forward(samples))
            assert all(runner.state_of(sample) for sample in samples)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_image_goes_on_where_another_stood(saved, sampler, device):
    folder, model = saved
    runner = load(folder, model, device=device, dtype="float16")
    request = a_request(model=model.name, scheduler=sampler, steps=6)
    whole, other = (runner.open(request, request.seed) for _ in range(2))
    while whole.sampler.position < whole.sampler.num_steps:
        if whole.sampler.position == 3:
            write = runner.state_of(whole)
        runner.advance([whole], runner.forward([whole]))
    assert runner.resume(other, write()) == 0
    assert other.sampler.position == 3
    while other.sampler.position < other.sampler.num_steps:
        runner.advance([other], runner.forward([other]))
    np.testing.assert_array_equal(runner.decode(other), runner.decode(whole))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_same_seed_goes_on_from_what_it_left(saved, sampler, device):
    folder, model = saved
    runner = load(folder, model, device=device, dtype="float16")
    runner.overlays.lend()
    job = a_job(model=model.name, scheduler=sampler, steps=10)
    whole = made_by(runner, job)
    for skip, kept in whole.left.items():
        again = made_by(runner, job, Borrowed(skipped_steps=skip, data=kept.write()))
        assert again.reached.skipped_steps == skip
        np.testing.assert_array_equal(again.images[0], whole.images[0])


def made_by(runner, job, brought=None):
    engine = Engine(max_slots=1, max_rows=2, slo_s=60)
    engine.attach(runner)
    future = engine.add(job, None, brought)
    while engine.step():
        pass
    return future.result()


def test_the_host_runs_ahead_by_one_step_only(saved, device):
    folder, model = saved
    runner = load(folder, model, device=device, dtype="float32")
    sample = runner.open(a_request(model=model.name, steps=20), 0)
    for _ in range(10):
        runner.advance([sample], runner.forward([sample]))
        assert len(runner._pace._events) <= 2


def test_pixels_come_back_as_bytes_on_the_host(saved, device):
    folder, model = saved
    runner = load(folder, model, device=device, dtype="bfloat16")
    image = engine_images(runner, [(0, a_job(model=model.name))])["j1"][0]
    assert isinstance(image, np.ndarray) and image.dtype == np.uint8
    assert image.shape == (32, 32, 3)


def test_a_model_is_loaded_beside_a_running_engine_and_changes_no_image(saved, device):
    folder, model = saved
    steps = 60 if device == "cuda" else 8
    jobs = [a_job(f"j{i}", model=model.name, seed=i, steps=steps) for i in range(4)]
    recorder = load_recorder(folder, model, device=device)
    expected = [engine_images(recorder, [(0, job)])[job.id][0] for job in jobs]
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(recorder)
    engine.start()
    try:
        futures = [engine.add(job, None) for job in jobs]
        for _ in range(3):
            load(folder, model, device=device, dtype="float16").close()
        for future, image in zip(futures, expected, strict=True):
            assert_alike(future.result(60).images[0], image, "float32")
    finally:
        engine.close()


@pytest.mark.asks_cuda
def test_a_detached_model_gives_its_memory_back(saved, device):
    folder, model = saved

    def left():
        """Serve it once; say what is allocated then."""
        engine = Engine(max_slots=8, max_rows=16, slo_s=60)
        engine.attach(load(folder, model, device=device, dtype="float32"))
        engine.start()
        engine.add(a_job(model=model.name), None).result(60)
        engine.detach(model.name).result(60)
        engine.close()
        gc.collect()
        return torch.cuda.memory_allocated()

    first = left()  # libraries keep scratch memory of their own from then on
    assert left() <= first + 2**20


@pytest.mark.asks_cuda
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_passes_are_replayed_and_the_same(saved, device, dtype):
    folder, model = saved
    runner = load(folder, model, device=device, dtype=dtype)
    graphs, runner.graphs = runner.graphs, None
    requests = [a_request(model=model.name, steps=8, seed=seed) for seed in range(3)]
    expected = [taken(runner, requests[:count]) for count in (3, 1)]
    runner.graphs = graphs
    for _ in range(2):
        for count, want in zip((3, 1), expected, strict=True):
            assert_alike(taken(runner, requests[:count]), want, dtype)
    assert len(graphs._graphs) == 2 and all(graphs._graphs.values())


@pytest.mark.asks_cuda
def test_passes_under_a_mask_are_replayed_and_the_same(tmp_path, device):
    model = save_sdxl(tmp_path)
    runner = load(tmp_path, model, device=device, dtype="float32")
    runner.overlays.reuse(Activations(2**30), MaskingConfig())
    graphs, runner.graphs = runner.graphs, None
    asked = a_request(model=model.name, task=Task.EDIT, edit=EDIT, steps=8)
    edits = [replace(asked, prompt=prompt) for prompt in ("a circle", "a square", "a star")]
    edited(runner, asked)  # records the template
    expected = [edited(runner, edit) for edit in edits]
    runner.graphs = graphs
    for _ in range(2):
        for edit, want in zip(edits, expected, strict=True):
            assert_alike(edited(runner, edit), want, "float32")
            runner.trim()  # and whoever captures next begins with no graph at all
    assert not graphs._most_cells, "a capture failed"


def edited(runner, request):
    """Make an edit of one template. Shapes: [1, C, h, w]."""
    sample = runner.open(request, 0, some_inputs(1))
    for _ in range(8):
        runner.advance([sample], runner.forward([sample]))
    sample.close()
    return sample.latents.float().cpu().numpy()


def taken(runner, requests):
    """Take some images six steps in one batch. Shapes: [N, C, h, w]."""
    samples = [runner.open(request, request.seed) for request in requests]
    for _ in range(6):
        runner.advance(samples, runner.forward(samples))
    return torch.cat([sample.latents for sample in samples]).float().cpu().numpy()


@pytest.mark.asks_cuda
def test_a_cancel_takes_effect_within_two_steps_of_the_device(saved, device):
    folder, model = saved
    engine = Engine(max_slots=8, max_rows=16, slo_s=60)
    engine.attach(load(folder, model, device=device, dtype="float32"))
    engine.start()
    try:
        future = engine.add(a_job(model=model.name, steps=100), None)
        while not any(progress.step for progress in engine.progress().values()):
            time.sleep(1e-3)
        started = time.perf_counter()
        engine.stop("j1", JobCanceled("asked to"))
        assert isinstance(future.exception(60), JobCanceled)
        step_s = engine.stats().step_s[model.name]
        assert time.perf_counter() - started <= 3 * step_s + 0.05
    finally:
        engine.close()


@pytest.mark.asks_cuda
def test_a_real_lack_of_memory_halves_the_batch_or_fails_one_job(tmp_path, device):
    model = save_sdxl(tmp_path / "tiny")
    recorder = load_recorder(tmp_path / "tiny", model, device=device)
    recorder.runner.graphs = None  # they keep what a replay needs, which then lacks nothing
    size = {"width": 512, "height": 512, "steps": 2}
    jobs = [a_job(f"j{i}", model=model.name, seed=i, **size) for i in range(8)]
    alone = peak_of(recorder, jobs[:1])
    together = peak_of(recorder, jobs)
    assert together > 2 * alone
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((alone + together) / 2 / total)
    try:
        made = engine_images(recorder, [(0, job) for job in jobs], are_failing=True)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    errors = [found for found in made.values() if isinstance(found, Exception)]
    assert all(isinstance(error, OutOfMemory) for error in errors)
    assert len(errors) < len(jobs)
    assert max(recorder.batches[-4:]) < 8


def peak_of(recorder, jobs):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    engine_images(recorder, [(0, job) for job in jobs])
    return torch.cuda.max_memory_reserved()
