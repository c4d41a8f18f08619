"""An image that goes on where another stood is that image: bit by bit, whatever its sampler."""

import functools

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import EngineError
from core.family import FLOW_SAMPLERS, SAMPLERS
from tests.unit.worker.rows import a_sample
from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.samplers.sampler import Samplers
from worker.diffusion.stock import make_scheduler
from worker.pipeline.resuming import resume, state_of
from worker.pipeline.row_batch import RowBatch

SHAPE = (1, 4, 8, 8)
STEPS = 8
NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
EULER = "EulerDiscreteScheduler"
FLOW = make_scheduler("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {})
OWN = make_scheduler(EULER, {"steps_offset": 1, **NOISE}, {})
#: What diffusers steps alone, by the classes of diffusers.
ALONE = {
    "DDIMScheduler": {"clip_sample": True},
    "PNDMScheduler": {"skip_prk_steps": False},
    "DPMSolverMultistepScheduler": {"solver_order": 3},
    "UniPCMultistepScheduler": {"solver_order": 3},
}
EVERY = [*((OWN, SAMPLERS, name) for name in SAMPLERS)]
EVERY += [(FLOW, FLOW_SAMPLERS, name) for name in FLOW_SAMPLERS]
EVERY += [
    (make_scheduler(name, {"steps_offset": 1, **NOISE, **config}, {}), {}, None)
    for name, config in ALONE.items()
]
NAMES = [f"{type(own).__name__}-{name}" for own, _, name in EVERY]


class Image:
    """One image of a model that any formula may stand for."""

    def __init__(self, own, known, name, *, begin=0, seed=0, dtype=torch.float32, eta=0.0):
        generator = torch.Generator().manual_seed(seed)
        sampler = Samplers(own, known).open(name, STEPS, generator, eta=eta)
        noise = torch.randn(SHAPE, generator=generator, dtype=dtype)
        sampler.position = sampler._begin = begin
        if begin and hasattr(sampler.scheduler, "set_begin_index"):
            sampler.scheduler.set_begin_index(begin)
        self.sampler = sampler
        pool = LatentPool(SHAPE[1:], dtype, torch.device("cpu"))
        self.sample = a_sample(sampler, noise * sampler.noise_level, pool)

    @torch.inference_mode()
    def run(self, until=None):
        """Step until a call; whatever is left is taken in the end."""
        batch = RowBatch([self.sample])
        until = self.sampler.num_steps if until is None else until
        while self.sampler.position < until:
            inputs = batch.inputs()
            batch.step(torch.tanh(inputs.flip(-1) + self.sampler.time / 1000).to(inputs.dtype))
        return self.sample.latents.clone()


@functools.cache
def whole(at, begin, dtype, eta):
    return Image(*EVERY[at], begin=begin, dtype=dtype, eta=eta).run()


@settings(max_examples=300, deadline=None)
@given(
    at=st.integers(0, len(EVERY) - 1),
    begin=st.sampled_from([0, 0, 2, 4]),
    after=st.integers(1, STEPS),
    eta=st.sampled_from([0.0, 0.0, 0.5]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_whoever_goes_on_after_any_step_makes_the_same_image(at, begin, after, eta, dtype):
    first = Image(*EVERY[at], begin=begin, dtype=dtype, eta=eta)
    first.run(min(begin + after, first.sampler.num_steps))
    written = state_of(first.sample)()
    other = Image(*EVERY[at], begin=begin, dtype=dtype, eta=eta)
    assert resume(other.sample, written) == 0
    assert other.sampler.position == first.sampler.position
    assert torch.equal(other.run(), whole(at, begin, dtype, eta))


def test_writing_it_down_later_says_where_it_stood_then():
    first = Image(OWN, SAMPLERS, "unipc")
    first.run(3)
    write = state_of(first.sample)
    first.run(6)
    other = Image(OWN, SAMPLERS, "unipc")
    resume(other.sample, write())
    assert other.sampler.position == 3
    assert torch.equal(other.run(), first.run())


def test_the_memory_of_others_in_its_pool_is_not_written():
    pool = LatentPool(SHAPE[1:], torch.float32, torch.device("cpu"))
    pool.take(torch.zeros(SHAPE), 4)
    image = Image(OWN, SAMPLERS, "euler")
    image.sample.row = pool.take(image.sample.latents)
    assert image.sample.row.whole.shape == (1, 1, *SHAPE[1:])


def damage(written, what):
    image = msgspec.msgpack.decode(written)
    if what == "cut off":
        return written[:-40]
    if what == "empty":
        return b""
    if what == "further than the schedule":
        image["standing"]["sampler"]["position"] = 99
    if what == "with LoRAs":
        image["standing"]["has_loras"] = True
    if what == "of an edit":
        image["standing"]["reuse"] = "a template"
    if what == "of an edit that learns later":
        image["standing"]["learnt_at"] = 7
    if what == "of a sampler that steps alone":
        image["standing"]["sampler"]["numbers"] = {"counter": 1}
    return msgspec.msgpack.encode(image)


@pytest.mark.parametrize(
    "what",
    [
        "cut off",
        "empty",
        "further than the schedule",
        "with LoRAs",
        "of an edit",
        "of an edit that learns later",
        "of a sampler that steps alone",
    ],
)
def test_a_state_that_is_not_of_this_image_is_refused(what):
    first = Image(OWN, SAMPLERS, "unipc")
    first.run(3)
    with pytest.raises(EngineError):
        resume(Image(OWN, SAMPLERS, "unipc").sample, damage(state_of(first.sample)(), what))


@pytest.mark.parametrize("name", ["euler", "ddim"])
def test_the_state_of_another_sampler_is_refused(name):
    first = Image(OWN, SAMPLERS, "unipc")
    first.run(3)
    with pytest.raises(EngineError):
        resume(Image(OWN, SAMPLERS, name).sample, state_of(first.sample)())


def test_latents_that_are_not_finite_are_refused():
    first = Image(OWN, SAMPLERS, "euler")
    first.run(3)
    first.sample.row.whole[0, 0, 0, 0, 0] = torch.nan
    with pytest.raises(EngineError, match="finite"):
        resume(Image(OWN, SAMPLERS, "euler").sample, state_of(first.sample)())
