from dataclasses import replace

import pytest
import torch

from zoo import architecture
from zoo.denoiser import Networks, Training, draw_times
from zoo.latents import Pool
from zoo.recipe import Recipe
from zoo.scenes import LEVELS
from zoo.text import TextEncoders

VOCABULARY = 764
RECIPE = Recipe(steps=4, decay_steps=2, warmup_steps=1, batch=3)


def _networks():
    torch.manual_seed(0)
    text = TextEncoders(
        architecture.text_encoder(VOCABULARY), architecture.text_encoder_2(VOCABULARY)
    )
    return Networks(architecture.unet(), text)


def _pool(level):
    generator = torch.Generator().manual_seed(level)
    ids = torch.full((6, architecture.MAX_TOKENS), VOCABULARY - 1, dtype=torch.int16)
    ids[:, :5] = torch.randint(0, 700, (6, 5), generator=generator).short()
    return Pool(latents=torch.randn(6, 4, 16, 16, generator=generator).half(), ids=ids)


def _training():
    return Training(_networks(), {level: _pool(level) for level in LEVELS}, RECIPE)


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


def test_the_rate_rises_holds_and_falls():
    recipe = Recipe(steps=100, decay_steps=40, warmup_steps=10, rate=1.0)
    rates = [recipe.rate_at(step) for step in range(100)]
    assert rates[:10] == sorted(rates[:10])
    assert set(rates[10:60]) == {1.0}
    assert rates[60:] == sorted(rates[60:], reverse=True)
    assert rates[-1] == pytest.approx(0.025)


def test_fewer_steps_start_the_decay_earlier_and_change_nothing_before():
    longer = Recipe(steps=100, decay_steps=40, warmup_steps=10)
    shorter = replace(longer, steps=80)
    assert all(longer.rate_at(step) == shorter.rate_at(step) for step in range(40))
    assert shorter.rate_at(50) < longer.rate_at(50)


@pytest.mark.parametrize("step", [0, 500, 2000, 10_000])
def test_the_mix_of_levels_adds_up(step):
    assert sum(Recipe().mix_at(step).values()) == pytest.approx(1.0)


def test_noise_levels_lean_to_the_middle_and_cover_the_ends():
    times = draw_times(20_000, 1000, torch.Generator().manual_seed(0))
    assert times.min() >= 0
    assert times.max() <= 999
    assert ((times > 300) & (times < 850)).float().mean() > 0.6
    assert (times > 950).float().mean() > 0.01


def test_a_dropped_caption_leaves_no_trace():
    networks = _networks().eval()
    noisy, times = torch.randn(2, 4, 16, 16), torch.tensor([500, 500])
    noisy[1] = noisy[0]
    ids = _pool(1).ids[:2].long()
    with torch.no_grad():
        kept = networks(noisy, times, ids, torch.tensor([True, True]))
        dropped = networks(noisy, times, ids, torch.tensor([False, False]))
    assert not torch.allclose(kept[0], kept[1])
    assert torch.allclose(dropped[0], dropped[1], atol=1e-5)
