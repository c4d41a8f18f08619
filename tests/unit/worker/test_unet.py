from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch

from core.errors import EngineError
from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_sdxl
from tests.stock import Recorder, difference, engine_images
from worker.diffusion.runner import is_out_of_memory
from worker.families.load import load

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    return load(folder, save_sdxl(folder), device="cpu", dtype="float32")


def test_guidance_takes_two_rows_and_one_or_less_takes_one(runner):
    assert runner.open(a_request(guidance=5.0), 0).rows == 2
    assert runner.open(a_request(guidance=1.0), 0).rows == 1
    assert runner.open(a_request(guidance=0.0), 0).rows == 1


def test_a_second_order_sampler_calls_the_model_more_often(runner):
    assert runner.open(a_request(steps=4, scheduler="heun"), 0).num_steps == 7


def test_a_second_order_sampler_reports_the_steps_asked_for(runner):
    from worker.engine.engine import Engine

    engine = Engine(max_slots=1, max_rows=2, slo_s=60)
    engine.attach(runner)
    engine.add(a_job("a", steps=4, scheduler="heun"), None)
    seen = []
    while engine.step():
        seen += [(p.step, p.steps) for p in engine.progress().values()]
    assert seen == [(0, 4), (1, 4), (1, 4), (2, 4), (2, 4), (3, 4)]


def test_other_sizes_are_other_groups(runner):
    square, tall = runner.open(a_request(), 0), runner.open(a_request(height=48), 0)
    assert square.group != tall.group
    assert square.group == runner.open(a_request(prompt="a much longer prompt"), 1).group


def test_a_prompt_is_encoded_once_for_all_images(runner):
    first = runner.open(a_request(seed=1), 1)
    kept = len(runner.prompts)
    second = runner.open(a_request(seed=2), 2)
    assert len(runner.prompts) == kept
    assert torch.equal(first.conditioning.text, second.conditioning.text)


def test_a_prompt_that_another_thread_encodes_is_the_same_bit_for_bit(runner):
    request = a_request(prompt="a blue circle", negative_prompt="dark")
    here = runner.open(request, 1).conditioning
    runner.prompts.clear()
    with ThreadPoolExecutor(1) as other:
        other.submit(runner.encoding(request)).result()
    kept = len(runner.prompts)
    there = runner.open(request, 1).conditioning
    assert kept == len(runner.prompts) == 2, "the prompt, and the negative one for others"
    assert torch.equal(here.text, there.text)
    assert all(torch.equal(here.added[name], there.added[name]) for name in here.added)
    assert runner.encoding(request) is None, "it is kept"


def test_a_negative_prompt_is_read_once_for_all_prompts_and_is_the_same_bit_for_bit(runner):
    def opened(prompt):
        request = a_request(prompt=prompt, prompt_2="else", negative_prompt="dark")
        return runner.open(request, 1).conditioning

    read = []
    encoders = (runner.pipe.text_encoder, runner.pipe.text_encoder_2)
    hooks = [each.register_forward_hook(lambda *_: read.append(1)) for each in encoders]
    runner.prompts.clear()
    [*_, after] = [opened(prompt) for prompt in ("a", "b")]
    assert len(read) == 2 * len(encoders) + len(encoders)
    runner.prompts.clear()
    alone = opened("b")
    for hook in hooks:
        hook.remove()
    assert torch.equal(after.text, alone.text)
    assert torch.equal(after.added["text_embeds"], alone.added["text_embeds"])


@pytest.mark.parametrize("changes", [{"negative_prompt": ""}, {"negative_prompt_2": "bright"}])
def test_another_negative_prompt_is_read_anew(runner, changes):
    first = a_request(prompt="a", negative_prompt="dark")
    before, after = (
        runner.open(request, 1).conditioning.text[0]
        for request in (first, replace(first, prompt="b", **changes))
    )
    assert not torch.equal(before, after)


def test_an_empty_prompt_is_no_negative_one(runner):
    runner.prompts.clear()
    runner.open(a_request(prompt="a", negative_prompt="dark"), 1)
    empty = runner.open(a_request(prompt="", negative_prompt="dark"), 1).conditioning.text
    assert not torch.equal(*empty)


def test_no_negative_prompt_means_zeros_and_an_empty_one_does_not(runner):
    none = runner.open(a_request(negative_prompt=None), 0).conditioning.text[0]
    empty = runner.open(a_request(negative_prompt=""), 0).conditioning.text[0]
    assert not none.any() and empty.any()


def test_samples_do_not_change_while_the_model_is_called(runner):
    samples = [runner.open(a_request(seed=i), i) for i in range(2)]
    before = [sample.latents.clone() for sample in samples]
    first = runner.forward(samples)
    again = runner.forward(samples[:1])
    assert all(torch.equal(s.latents, b) for s, b in zip(samples, before, strict=True))
    assert difference(first[0], again[0]) < 1e-5


def test_an_unknown_sampler_fails_its_request(runner):
    with pytest.raises(EngineError, match="'magic' is unknown"):
        runner.open(a_request(scheduler="magic"), 0)


def test_a_sampler_that_cannot_take_so_many_steps_fails_its_request(runner):
    with pytest.raises(EngineError, match="lcm"):
        runner.open(a_request(scheduler="lcm", steps=51), 0)


def test_a_latent_that_is_not_finite_makes_no_image(runner):
    sample = runner.open(a_request(), 0)
    with torch.inference_mode():
        sample.latents.fill_(float("nan"))
    with pytest.raises(EngineError, match="not finite"):
        runner.decode(sample)


def test_pixels_are_rounded_as_the_stock_pipeline_rounds_them(runner):
    sample = runner.open(a_request(), 3)
    expected = (runner.image(sample).numpy() * 255).round().astype(np.uint8)
    assert np.array_equal(runner.decode(sample), expected)


def test_padding_to_a_bucket_changes_no_image(runner):
    jobs = [(i, a_job(f"j{i}", at=float(i), seed=i, guidance=1.0 + i % 2)) for i in range(3)]
    plain = engine_images(Recorder(runner), jobs)
    runner.packing.buckets = (4, 8)
    try:
        padded = engine_images(Recorder(runner), jobs)
    finally:
        runner.packing.buckets = ()
    for job_id, images in plain.items():
        assert difference(images[0], padded[job_id][0]) < 1e-5


def test_closing_lets_go_of_the_weights(tmp_path):
    import gc
    import weakref

    model = save_sdxl(tmp_path / "tiny")
    runner = load(tmp_path / "tiny", model, device="cpu", dtype="float32")
    unet = weakref.ref(runner.unet)
    engine_images(runner, [(0, a_job(steps=1))])
    runner.close()
    gc.collect()
    assert unet() is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (ValueError("out of memory"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
    ],
)
def test_a_failed_allocation_is_told_from_other_errors(error, expected):
    assert is_out_of_memory(error) is expected
