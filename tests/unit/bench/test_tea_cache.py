import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bench.parts.image_sets import frechet
from bench.parts.tea_cache import TeaCache


class Norm(nn.Module):
    def forward(self, hidden: Tensor, emb: Tensor) -> tuple[Tensor]:
        return (hidden + emb,)


class Block(nn.Module):
    """Adds one to its tokens, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = Norm()
        self.calls = 0

    def forward(
        self, *, hidden_states: Tensor, encoder_hidden_states: Tensor, temb: Tensor
    ) -> tuple[Tensor, Tensor]:
        self.calls += 1
        return encoder_hidden_states, hidden_states + 1


class Last(nn.Module):
    def forward(self, tokens: Tensor, temb: Tensor) -> Tensor:
        return tokens


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer_blocks = nn.ModuleList([Block(), Block()])
        self.norm_out = Last()

    def forward(self, tokens: Tensor, temb: Tensor) -> Tensor:
        text = tokens
        for block in self.transformer_blocks:
            text, tokens = block(hidden_states=tokens, encoder_hidden_states=text, temb=temb)
        out: Tensor = self.norm_out(tokens, temb)
        return out


def steps(model: Transformer, cache: TeaCache, moments: list[float]) -> list[Tensor]:
    cache.begin(len(moments))
    return [model(torch.full((1, 4), moment), torch.zeros(1)) for moment in moments]


@pytest.fixture
def model() -> Transformer:
    return Transformer()


def test_without_a_threshold_nothing_is_left_out_and_changes_are_noted(model: Transformer) -> None:
    cache = TeaCache(model)
    made = steps(model, cache, [4.0, 3.0, 2.0])
    assert [float(each[0, 0]) for each in made] == [6.0, 5.0, 4.0]
    assert cache.skipped == 0
    assert cache.seen.inputs == pytest.approx([1 / 4, 1 / 3])
    assert cache.seen.outputs == [0.0, 0.0]


def test_steps_are_left_out_until_what_changed_adds_up(model: Transformer) -> None:
    cache = TeaCache(model)
    cache.threshold = 0.5
    made = steps(model, cache, [4.0, 3.0, 2.0, 1.9, 1.8])
    assert [block.calls for block in model.transformer_blocks] == [3, 3]
    assert cache.skipped == 2
    assert [float(each[0, 0]) for each in made] == pytest.approx([6.0, 5.0, 4.0, 3.9, 3.8])


def test_the_last_step_is_never_left_out(model: Transformer) -> None:
    cache = TeaCache(model)
    cache.threshold = 100.0
    steps(model, cache, [1.0] * 6)
    assert cache.skipped == 4


def test_a_set_is_no_distance_from_itself_and_moves_by_its_mean() -> None:
    features = np.random.default_rng(0).normal(size=(64, 4))
    assert frechet(features, features) == pytest.approx(0.0, abs=1e-6)
    assert frechet(features, features + 2.0) == pytest.approx(16.0, abs=1e-6)
