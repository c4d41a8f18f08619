from dataclasses import replace

import pytest
import torch

from zoo import architecture
from zoo.captioned import Captioned
from zoo.denoiser import DenoiserTraining, Teacher, draw_times
from zoo.family import FAMILY, Layout
from zoo.recipe import DenoiserRecipe
from zoo.scenes import LEVELS

RECIPE = DenoiserRecipe(steps=4, decay_steps=2, warmup_steps=1, batch=3)


def _captioned(layout, level):
    generator = torch.Generator().manual_seed(level)
    has_pool = layout is Layout.SDXL
    width = 256 if has_pool else 96
    return Captioned(
        latents=torch.randn(6, 4, 16, 16, generator=generator).half(),
        caption=torch.tensor([0, 1, 2, 0, 1, 2]),
        context=torch.randn(3, architecture.MAX_TOKENS, width, generator=generator).half(),
        pooled=torch.randn(3, 128, generator=generator).half() if has_pool else None,
        empty=(
            torch.zeros(architecture.MAX_TOKENS, width),
            torch.zeros(128) if has_pool else None,
        ),
    )


def _examples(layout):
    return {level: _captioned(layout, level) for level in LEVELS}


def _training(name="shapes-m", teacher=None):
    torch.manual_seed(0)
    member = FAMILY[name]
    return DenoiserTraining(member.unet(), _examples(member.layout), RECIPE, teacher)


@pytest.mark.long
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole = _training()
    losses = [whole.advance() for _ in range(4)]
    first = _training()
    head = [first.advance() for _ in range(2)]
    first.save(tmp_path / "half.pt")
    second = _training()
    second.load(tmp_path / "half.pt")
    tail = [second.advance() for _ in range(2)]
    assert head + tail == losses
    for name, weight in whole.average.state_dict().items():
        assert torch.equal(weight, second.average.state_dict()[name]), name


def test_a_pupil_of_itself_has_nothing_to_learn_at_first():
    torch.manual_seed(0)
    unet = FAMILY["shapes-tiny"].unet()
    taught = _training("shapes-tiny", Teacher(unet=unet.eval(), examples=_examples(Layout.SD)))
    assert taught.advance() < 1e-4  # bfloat16, and two kinds of attention


def test_the_rate_rises_holds_and_falls():
    recipe = DenoiserRecipe(steps=100, decay_steps=40, warmup_steps=10, rate=1.0)
    rates = [recipe.rate_at(step) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert set(rates[10:60]) == {1.0}
    assert rates[60:] == sorted(rates[60:], reverse=True)
    assert rates[-1] == pytest.approx(0.025)


def test_fewer_steps_start_the_decay_earlier_and_change_nothing_before():
    longer = DenoiserRecipe(steps=100, decay_steps=40, warmup_steps=10)
    shorter = replace(longer, steps=80)
    assert all(longer.rate_at(step) == shorter.rate_at(step) for step in range(40))
    assert shorter.rate_at(50) < longer.rate_at(50)


@pytest.mark.parametrize("mix_steps", [0, 2000])
@pytest.mark.parametrize("step", [0, 500, 2000, 10_000])
def test_the_mix_of_levels_adds_up(step, mix_steps):
    assert sum(DenoiserRecipe(mix_steps=mix_steps).mix_at(step).values()) == pytest.approx(1.0)


def test_noise_levels_lean_to_the_middle_and_cover_the_ends():
    times = draw_times(20_000, 1000, torch.Generator().manual_seed(0))
    assert times.min() >= 0
    assert times.max() <= 999
    assert ((times > 300) & (times < 850)).float().mean() > 0.6
    assert (times > 950).float().mean() > 0.01


def test_a_dropped_caption_reads_as_the_empty_one():
    batch = _captioned(Layout.SDXL, 1).pick(4, torch.Generator().manual_seed(0))
    dropped = batch.with_dropped(torch.tensor([True, False, False, True]))
    assert dropped.context[[0, 3]].abs().max() == 0
    assert dropped.pooled[[0, 3]].abs().max() == 0
    assert torch.equal(dropped.context[1:3], batch.context[1:3])
