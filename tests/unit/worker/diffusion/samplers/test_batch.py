"""Every row of a batch is bit by bit the image that diffusers makes alone."""

import copy
import inspect
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.family import FLOW_SAMPLERS, SAMPLERS
from core.levels.approximation import EXACT, whole_skips
from tests.unit.worker.rows import a_sample
from worker.diffusion.edit import Canvas
from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.runner import Borrowed
from worker.diffusion.samplers.registry import FINDERS, stepper_of
from worker.diffusion.samplers.sampler import Samplers
from worker.diffusion.snapshot import Trail, go_on
from worker.diffusion.stock import make_scheduler
from worker.pipeline.row_batch import RowBatch

SHAPE = (1, 4, 4, 4)
CPU = torch.device("cpu")
NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
OF_NOISE = make_scheduler("EulerDiscreteScheduler", {"steps_offset": 1, **NOISE}, {})
OF_VELOCITY = make_scheduler(
    "EulerDiscreteScheduler", {"prediction_type": "v_prediction", **NOISE}, {}
)
OF_FLOW = make_scheduler("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {})
#: One that no request can name, and that steps alone.
ALONE = {**SAMPLERS, "third-order": ("DPMSolverMultistepScheduler", {"solver_order": 3})}
FAMILIES = {"noise": (OF_NOISE, ALONE), "velocity": (OF_VELOCITY, SAMPLERS)}
FAMILIES["flow"] = (OF_FLOW, FLOW_SAMPLERS)


@dataclass(frozen=True)
class Asked:
    """One image of a mixed batch."""

    name: str
    steps: int
    seed: int
    joins_at: int = 0  #: step of the batch
    guidance: float | None = None
    strength: float | None = None  #: of an edit
    skip: int = 0  #: K of 50, from its own latents


@st.composite
def mixes(draw, names):
    asked = []
    for seed in range(draw(st.integers(1, 6))):
        steps = draw(st.integers(1, 12))
        strength = draw(st.sampled_from([None, None, 1.0, 0.6, 0.3]))
        skips = (0,) if strength or draw(st.booleans()) else (0, *whole_skips(steps))
        each = Asked(
            name=draw(st.sampled_from(names)),
            steps=steps if not strength else max(steps, 4),
            seed=seed,
            joins_at=draw(st.integers(0, 5)),
            guidance=draw(st.sampled_from([None, 1.5, 7.0])),
            strength=strength,
            skip=draw(st.sampled_from(skips)),
        )
        asked.append(each)
    return asked


def model(inputs, times, row):
    """Stands for any model: each row of an image sees something else."""
    times = torch.as_tensor(times, dtype=torch.float32).reshape(-1, 1, 1, 1)
    return torch.tanh(inputs.flip(-1) * (1 - 0.25 * row) + times / 1000)


def guide(negative, positive, scale):
    return negative if scale is None else negative + scale * (positive - negative)


def cut(scheduler, asked):
    """As stock inpaint pipelines do, an edit begins late by its strength."""

    def get_timesteps(steps, strength, device):
        begin = max(steps - int(min(steps * strength, steps)), 0) * scheduler.order
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(begin)
        return scheduler.timesteps[begin:], steps - begin // scheduler.order

    return SimpleNamespace(get_timesteps=get_timesteps)


def drawn(asked, level):
    generator = torch.Generator().manual_seed(asked.seed)
    noise = torch.randn(SHAPE, generator=generator)
    others = torch.Generator().manual_seed(1000 + asked.seed)
    template = torch.randn(SHAPE, generator=others)
    mask = (torch.rand(1, 1, *SHAPE[2:], generator=others) > 0.5).float()
    canvas = Canvas(template=template, noise=noise, mask=mask, is_blank=False)
    return generator, noise * level, canvas if asked.strength else None


def alone(own, known, asked):
    """The image as diffusers alone makes it."""
    class_name, extra = known[asked.name]
    scheduler = make_scheduler(class_name, own.config, extra)
    scheduler.set_timesteps(asked.steps)
    if hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(0)
    generator, latents, canvas = drawn(asked, getattr(scheduler, "init_noise_sigma", 1.0))
    timesteps = scheduler.timesteps
    if asked.strength:
        timesteps, _ = cut(scheduler, asked).get_timesteps(asked.steps, asked.strength, "cpu")
    taken = inspect.signature(scheduler.step).parameters
    brought = {"generator": generator, "eta": 0.0}  # as stock pipelines bring them
    brought = {name: value for name, value in brought.items() if name in taken}
    for at, time in enumerate(timesteps):
        seen = latents
        if hasattr(scheduler, "scale_model_input"):
            seen = scheduler.scale_model_input(latents, time)
        rows = [model(seen, time, row) for row in (0, 1)]
        made = guide(*rows, asked.guidance)
        latents = scheduler.step(made, time, latents, return_dict=False, **brought)[0]
        if canvas is not None:
            kept = canvas.template
            if at + 1 < len(timesteps):
                kept = noised(scheduler, canvas, timesteps[at + 1][None])
            latents = (1 - canvas.mask) * kept + canvas.mask * latents
    return latents


def noised(scheduler, canvas, time):
    if hasattr(scheduler, "scale_noise"):
        return scheduler.scale_noise(canvas.template, time, canvas.noise)
    return scheduler.add_noise(canvas.template, canvas.noise, time)


def opened(samplers, asked, pool, skip=0, data=b""):
    generator, _, _ = drawn(asked, 1.0)
    sampler = samplers.open(asked.name, asked.steps, generator)
    _, latents, canvas = drawn(asked, sampler.noise_level)
    if asked.strength:
        sampler.begin(cut(sampler.scheduler, asked), asked.strength)
    if skip:
        latents, begun_at = go_on(Borrowed(skipped_steps=skip, data=data), sampler, latents)
        assert begun_at.skipped_steps == skip
    rows = 1 if asked.guidance is None else 2
    return a_sample(sampler, latents, pool, rows=rows, guidance=asked.guidance, canvas=canvas)


def advance(samples):
    batch = RowBatch(samples)
    inputs, rows = batch.inputs(), [row for sample in samples for row in range(sample.rows)]
    times = [sample.sampler.time for sample in samples for _ in range(sample.rows)]
    with torch.no_grad():
        batch.step(model(inputs, times, torch.tensor(rows).reshape(-1, 1, 1, 1)))


def is_finished(sample):
    return sample.sampler.position == sample.sampler.num_steps


def left_by(samplers, asked):
    """What a whole image leaves at its step K."""
    sample = opened(samplers, asked, LatentPool(SHAPE[1:], torch.float32, CPU))
    trail = Trail(sample.sampler, EXACT)
    while not is_finished(sample):
        advance([sample])
        trail.note(sample.sampler, sample.row)
    return trail.left[asked.skip].write()


def together(own, known, mix):
    """All images in one batch, each from the step on at which it joins."""
    samplers, pool = Samplers(own, known), LatentPool(SHAPE[1:], torch.float32, CPU)
    lent = {each.seed: left_by(samplers, each) for each in mix if each.skip}
    waiting, running, made, step = list(mix), {}, {}, 0
    while waiting or running:
        for asked in [each for each in waiting if each.joins_at <= step]:
            waiting.remove(asked)
            data = lent.get(asked.seed, b"")
            running[asked.seed] = opened(samplers, asked, pool, asked.skip, data)
        if running:
            advance(list(running.values()))
        for seed in [seed for seed, sample in running.items() if is_finished(sample)]:
            made[seed] = running.pop(seed).latents.clone()
        step += 1
    return made


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_mixed_batch_is_what_diffusers_makes_of_each_image_alone(family, data):
    own, known = FAMILIES[family]
    mix = data.draw(mixes([name for name in known if name != "third-order"]))
    made = together(own, known, mix)
    for asked in mix:
        assert torch.equal(made[asked.seed], alone(own, known, asked)), asked


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sampler_on_offer_steps_with_others(family):
    own, known = FAMILIES[family]
    mix = [Asked(name, steps=20, seed=at, joins_at=at) for at, name in enumerate(known)]
    made = together(own, known, mix)
    for asked in mix:
        assert torch.equal(made[asked.seed], alone(own, known, asked)), asked
    offered = [make_scheduler(*known[name][:1], own.config, known[name][1]) for name in known]
    steppers = {name: stepper_of(each) for name, each in zip(known, offered, strict=True)}
    assert [name for name, stepper in steppers.items() if stepper is None] == [
        name for name in known if name == "third-order"
    ]


def test_the_table_of_steppers_is_the_list_of_samplers():
    offered = {class_name for class_name, _ in [*SAMPLERS.values(), *FLOW_SAMPLERS.values()]}
    assert offered == FINDERS.keys()


@pytest.mark.parametrize(
    ("class_name", "config"),
    [
        ("DDIMScheduler", {"clip_sample": True}),
        ("DDIMScheduler", {"clip_sample": False, "thresholding": True}),
        ("DDIMScheduler", {"clip_sample": False, "prediction_type": "sample"}),
        ("PNDMScheduler", {"skip_prk_steps": False}),
        ("DPMSolverMultistepScheduler", {"solver_order": 3}),
        ("DPMSolverMultistepScheduler", {"solver_type": "heun"}),
        ("UniPCMultistepScheduler", {"solver_order": 3}),
        ("UniPCMultistepScheduler", {"predict_x0": False, "final_sigmas_type": "sigma_min"}),
        ("FlowMatchEulerDiscreteScheduler", {"stochastic_sampling": True}),
        ("DDPMScheduler", {}),
    ],
)
def test_what_no_stepper_knows_steps_alone(class_name, config):
    scheduler = make_scheduler(class_name, {}, config)
    assert stepper_of(scheduler) is None
    known = {"own": (class_name, config)}
    mix = [Asked("own", steps=6, seed=seed, joins_at=2 * seed, guidance=3.0) for seed in range(2)]
    made = together(scheduler, known, mix)
    for asked in mix:
        assert torch.equal(made[asked.seed], alone(scheduler, known, asked))


@pytest.mark.parametrize("name", ALONE)
def test_a_step_that_failed_is_taken_again_as_if_it_had_not_been_tried(name):
    own, asked = OF_NOISE, Asked(name, steps=6, seed=0, strength=0.9)
    samplers, pool = Samplers(own, ALONE), LatentPool(SHAPE[1:], torch.float32, CPU)
    sample = opened(samplers, asked, pool)
    broken = copy.copy(sample.canvas)
    while not is_finished(sample):
        sample.canvas = SimpleNamespace(blend=lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            advance([sample])
        sample.canvas = broken
        advance([sample])
    assert torch.equal(sample.latents, alone(own, ALONE, asked))


def test_a_schedule_is_read_once_for_all_that_are_equal():
    samplers = Samplers(OF_NOISE, SAMPLERS)
    generator = torch.Generator()
    one, two = (samplers.open("unipc", 9, generator) for _ in range(2))
    assert one.table is two.table
    assert samplers.open("unipc", 8, generator).table is not one.table
    late = samplers.open("unipc", 9, generator)
    late.begin(cut(late.scheduler, None), 0.5)
    assert late.table is not one.table


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", SAMPLERS)
def test_half_precision_is_kept_within_its_rounding(name, dtype):
    asked = Asked(name, steps=8, seed=3)
    samplers = Samplers(OF_NOISE, SAMPLERS)
    ends = []
    for precision in (torch.float32, dtype):
        pool = LatentPool(SHAPE[1:], precision, CPU)
        sampler = samplers.open(name, asked.steps, torch.Generator().manual_seed(7))
        noise = torch.randn(SHAPE, generator=torch.Generator().manual_seed(8))
        sample = a_sample(sampler, (noise * sampler.noise_level).to(precision), pool)
        while not is_finished(sample):
            batch = RowBatch([sample])
            assert batch.inputs().dtype == precision
            batch.step(torch.full(SHAPE, 0.1, dtype=precision))
        assert sample.latents.dtype == precision
        ends.append(sample.latents.float())
    if not sampler.stepper.draws(0, 2):
        assert torch.allclose(*ends, rtol=0.05, atol=0.3)
