"""Going on from what another image left: bit by bit the same, for every sampler."""

import functools

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import EngineError
from core.family import FLOW_SAMPLERS, SAMPLERS
from core.levels.approximation import EXACT, skipping, whole_skips
from tests.unit.worker.rows import a_sample
from worker.diffusion.latent_pool import LatentPool
from worker.diffusion.runner import Borrowed
from worker.diffusion.samplers.history import HISTORIES, history_of
from worker.diffusion.samplers.sampler import Samplers
from worker.diffusion.snapshot import Trail, go_on, read_tensors
from worker.diffusion.stock import make_scheduler
from worker.pipeline.row_batch import RowBatch

SHAPE = (1, 4, 8, 8)
NOISE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
OWN = make_scheduler("EulerDiscreteScheduler", {"steps_offset": 1, **NOISE}, {})
FLOW = make_scheduler("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {})
FAMILIES = [(OWN, SAMPLERS, name) for name in SAMPLERS]
FAMILIES += [(FLOW, FLOW_SAMPLERS, name) for name in FLOW_SAMPLERS]
every_sampler = pytest.mark.parametrize(
    ("own", "known", "name"), FAMILIES, ids=[f"{type(f[0]).__name__[:4]}-{f[2]}" for f in FAMILIES]
)


class Image:
    """One image of a model that any formula may stand for."""

    def __init__(self, own, known, name, *, steps=20, seed=0, dtype=torch.float32):
        self.generator = torch.Generator().manual_seed(seed)
        self.sampler = Samplers(own, known).open(name, steps, self.generator)
        noise = torch.randn(SHAPE, generator=self.generator, dtype=dtype)
        self.pool = LatentPool(SHAPE[1:], dtype, torch.device("cpu"))
        self.latents = noise * self.sampler.noise_level

    def begin(self, data, skip, weights=""):
        borrowed = Borrowed(skipped_steps=skip, data=data)
        self.latents, reached = go_on(borrowed, self.sampler, self.latents, weights)
        return reached.skipped_steps

    def run(self, begun_at=0, weights=""):
        trail = Trail(self.sampler, skipping(begun_at), weights)
        sample = a_sample(self.sampler, self.latents, self.pool)
        batch = RowBatch([sample])
        while self.sampler.position < self.sampler.num_steps:
            batch.step(torch.tanh(batch.inputs().flip(-1) + self.sampler.time / 1000))
            trail.note(self.sampler, sample.row)
        self.latents = sample.latents
        return trail.left


@every_sampler
def test_the_same_seed_goes_on_bit_by_bit(own, known, name):
    whole = Image(own, known, name)
    left = whole.run()
    assert tuple(left) == (5, 10, 15, 20, 25)
    for skip, state in left.items():
        again = Image(own, known, name)
        assert again.begin(state.write(), skip) == skip
        calls = again.sampler.num_steps - again.sampler.position
        assert calls < whole.sampler.num_steps
        again.run(skip)
        assert torch.equal(again.latents, whole.latents)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["euler", "dpm++2m", "dpm++sde", "unipc", "pndm"])
def test_a_state_keeps_the_precision_of_its_model(name, dtype):
    whole = Image(OWN, SAMPLERS, name, dtype=dtype)
    state = whole.run()[10]
    assert {t.dtype for t in read_tensors(state.write()).values() if t.dim()} == {dtype}
    again = Image(OWN, SAMPLERS, name, dtype=dtype)
    assert again.begin(state.write(), 10) == 10
    again.run()
    assert torch.equal(again.latents, whole.latents)


@pytest.mark.parametrize("steps", [10, 20, 25, 50])
def test_only_whole_numbers_of_steps_are_skipped(steps):
    left = Image(OWN, SAMPLERS, "euler", steps=steps).run()
    assert tuple(left) == whole_skips(steps)
    assert all(k * steps % 50 == 0 for k in left)


def test_one_that_began_late_leaves_what_comes_later():
    state = Image(OWN, SAMPLERS, "ddim").run()[15]
    image = Image(OWN, SAMPLERS, "ddim", seed=1)
    assert tuple(image.run(image.begin(state.write(), 15))) == (20, 25)


@pytest.mark.parametrize(
    ("left_by", "taken_by", "skip"),
    [("one", "one", 10), ("one", "another", 0), ("", "one", 10), ("one", "", 10)],
    ids=["same", "replaced", "left-before-weights-were-told", "not-known-here"],
)
def test_nobody_goes_on_from_what_replaced_weights_left(left_by, taken_by, skip):
    state = Image(OWN, SAMPLERS, "euler").run(weights=left_by)[10]
    image = Image(OWN, SAMPLERS, "euler", seed=1)
    noise = image.latents.clone()
    assert image.begin(state.write(), 10, taken_by) == skip
    assert torch.equal(image.latents, noise) == (skip == 0)


def test_another_seed_of_a_sampler_that_draws_gives_another_image():
    state = Image(OWN, SAMPLERS, "euler-ancestral").run()[10]
    ends = []
    for seed in (0, 1):
        image = Image(OWN, SAMPLERS, "euler-ancestral", seed=seed)
        image.begin(state.write(), 10)
        image.run()
        ends.append(image.latents)
    assert not torch.equal(*ends)


def damage(data, what):
    """The same state, as a store might give it back one day."""
    tensors = safetensors.torch.load(data)
    if what == "truncated":
        return data[:-40]
    if what == "empty":
        return b""
    if what == "another size":
        tensors["latents"] = torch.zeros(1, 4, 4, 4)
    if what == "another precision":
        tensors["latents"] = tensors["latents"].half()
    if what == "not a number":
        tensors["latents"][0, 0, 0, 0] = torch.nan
    if what == "no latents":
        del tensors["latents"]
    if what == "no memory":
        del tensors["last_sample"]
    if what == "a wrong count":
        tensors["this_order"] = torch.tensor(99)
    return safetensors.torch.save(tensors)


@pytest.mark.parametrize(
    "what",
    [
        "truncated",
        "empty",
        "another size",
        "another precision",
        "not a number",
        "no latents",
        "no memory",
        "a wrong count",
    ],
)
def test_damaged_latents_cost_the_level_alone(what):
    whole = Image(OWN, SAMPLERS, "unipc")
    state = whole.run()[10]
    image = Image(OWN, SAMPLERS, "unipc")
    assert image.begin(damage(state.write(), what), 10) == 0
    image.run()
    assert torch.equal(image.latents, whole.latents)


@functools.cache
def whole_unipc():
    return Image(OWN, SAMPLERS, "unipc").run()[10].write()


@settings(max_examples=50, deadline=None)
@given(at=st.integers(0, 1200), byte=st.integers(0, 255), cut=st.integers(0, 60))
def test_whatever_becomes_of_the_bytes_the_image_begins_somewhere(at, byte, cut):
    data = bytearray(whole_unipc())
    data[at] = byte
    image = Image(OWN, SAMPLERS, "unipc")
    assert image.begin(bytes(data[: len(data) - cut]), 10) in (0, 10)
    assert image.latents.shape == SHAPE


def test_the_memory_of_another_sampler_is_not_taken():
    state = Image(OWN, SAMPLERS, "dpm++2m").run()[10]
    assert Image(OWN, SAMPLERS, "unipc").begin(state.write(), 10) == 0
    assert Image(OWN, SAMPLERS, "dpm++2m", steps=25).begin(state.write(), 5) == 0


def test_samplers_that_are_not_known_neither_lend_nor_borrow():
    slow = make_scheduler("PNDMScheduler", {"skip_prk_steps": False, **NOISE}, {})
    assert history_of(slow) is None
    assert history_of(make_scheduler("DEISMultistepScheduler", NOISE, {})) is None
    image = Image(slow, {}, None)
    assert image.begin(b"", 10) == 0
    assert Trail(image.sampler, EXACT)._stops == {}


def test_every_sampler_on_offer_has_its_line_in_the_table():
    offered = {class_name for class_name, _ in [*SAMPLERS.values(), *FLOW_SAMPLERS.values()]}
    assert offered == HISTORIES.keys()


def test_damaged_bytes_are_said_to_be_damaged():
    with pytest.raises(EngineError, match="damaged"):
        read_tensors(b"12345678" * 9)
