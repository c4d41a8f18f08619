import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import CLIPModel, CLIPTokenizer

from worker.diffusion.scorer import Scorer
from zoo.checker import check
from zoo.scenes import LEVELS, draw, training_scene
from zoo.scorer.architecture import clip
from zoo.scorer.batches import batch
from zoo.scorer.export import export
from zoo.scorer.figures import agreement, auc
from zoo.scorer.flaws import flawed
from zoo.scorer.inventory import QUESTIONS, take
from zoo.scorer.judged import Judged, addresses, judged
from zoo.scorer.training import ScorerRecipe, ScorerTraining, Student, contrast, ranking

TOKENIZER = Path(__file__).parents[3] / "zoo" / "weights" / "shapes-xl" / "tokenizer"
RECIPE = ScorerRecipe(steps=3, decay_steps=1, warmup_steps=1, batch=4, flawed=2, generated=2)


@pytest.fixture(scope="module")
def tokenizer():
    return CLIPTokenizer.from_pretrained(TOKENIZER)


def draw_flawed(pipeline, scenes, seed):
    return [flawed(scene, Random(at)) for at, scene in enumerate(scenes)]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    path = tmp_path_factory.mktemp("pool") / "flawed.safetensors"
    return judged(path, lambda: None, draw_flawed, addresses(10, 0, 0))


def training(tokenizer, pool):
    torch.manual_seed(0)
    return ScorerTraining(Student(clip(len(tokenizer))), tokenizer, pool, pool, RECIPE)


def test_judged_pictures_carry_what_the_checker_says_and_are_read_again(pool, tmp_path):
    assert [pool.scene(at).level for at in range(5)] == list(LEVELS)
    for at, picture in enumerate(pool.pictures.numpy()):
        assert check(picture, pool.scene(at)).share == pytest.approx(float(pool.shares[at]))
    path = tmp_path / "again.safetensors"
    first = judged(path, lambda: None, draw_flawed, addresses(4, 0, 0))
    again = judged(path, None, None, [])
    assert isinstance(again, Judged) and torch.equal(first.pictures, again.pictures)


def test_pictures_of_several_makers_stand_behind_each_other(pool):
    both = Judged.join([pool, pool])
    assert both.scene(10) == pool.scene(0)
    assert torch.equal(both.shares[10:], pool.shares)


def test_a_batch_knows_which_pairs_are_right(tokenizer, pool):
    scenes = [training_scene(level, 1, 2) for level in LEVELS]
    seen = batch(scenes, [(pool, 0), (pool, 3)], tokenizer, Random(0))
    assert len(seen.ids) == len(seen.pixels) == 12
    own = seen.pairs[:, 0] == seen.pairs[:, 1]
    assert (seen.shares[own][:10] == 1).all()
    assert (seen.shares[~own] < 1).all()
    assert seen.shares[own][10:].tolist() == pool.shares[[0, 3]].tolist()
    assert not seen.is_doubtful.diagonal().any()
    assert not seen.is_doubtful[torch.arange(5), torch.arange(5) + 5].any()


def test_scenes_with_the_same_nouns_are_doubtful_negatives(tokenizer):
    scene = training_scene(1, 1, 2)
    seen = batch([scene, scene], [], tokenizer, Random(0))
    assert seen.is_doubtful[0, 1] and seen.is_doubtful[1, 0]


def test_the_inventory_asks_only_what_a_caption_settles():
    inventory = take([training_scene(level, 1, 5) for level in LEVELS])
    assert inventory.answers.shape == (5, QUESTIONS)
    assert (inventory.answers <= inventory.asked).all()
    assert inventory.asked[0].sum() < inventory.asked[4].sum() < QUESTIONS
    assert (inventory.patches["shape"] > 0).any(dim=1).all()


def test_contrast_is_least_when_every_caption_finds_its_picture():
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    assert contrast(20 * torch.eye(4), nothing) < 1e-6
    assert contrast(torch.zeros(4, 4), nothing) == pytest.approx(math.log(4))
    others = ~torch.eye(4, dtype=torch.bool)
    assert contrast(torch.zeros(4, 4), others) == 0


def test_ranking_asks_for_the_order_of_shares_alone():
    shares = torch.tensor([1.0, 0.5, 0.5, 0.2])
    right, wrong = torch.tensor([30.0, 0.0, 5.0, -30.0]), torch.tensor([-30.0, 0.0, 0.0, 30.0])
    assert ranking(right, shares) < 1e-6 < ranking(wrong, shares)


@pytest.mark.long
def test_a_resumed_run_ends_with_the_same_weights(tokenizer, pool, tmp_path):
    whole, first, second = (training(tokenizer, pool) for _ in range(3))
    losses = [whole.advance() for _ in range(3)]
    first.advance()
    first.save(tmp_path / "scorer.pt")
    second.load(tmp_path / "scorer.pt")
    assert [second.advance() for _ in range(2)] == losses[1:]
    pairs = zip(whole.average.parameters(), second.average.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_an_exported_scorer_loads_in_stock_transformers_and_in_the_worker(tokenizer, tmp_path):
    model = clip(len(tokenizer))
    assert 1.5e6 < sum(weight.numel() for weight in model.parameters()) < 3e6
    export(model, tokenizer, tmp_path / "mine")
    stock = CLIPModel.from_pretrained(tmp_path / "mine")
    assert {weight.dtype for weight in stock.parameters()} == {torch.float32}
    assert sum(path.stat().st_size for path in (tmp_path / "mine").iterdir()) < 8e6
    scene = training_scene(3, 1, 1)
    scores = Scorer(tmp_path / "mine").scores([scene.caption], [draw(scene)])
    assert scores.shape == (1,) and scores.isfinite().all()


floats = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@given(floats, floats)
def test_auc_is_the_chance_that_right_is_above_wrong(right, wrong):
    wins = [(r > w) + (r == w) / 2 for r in right for w in wrong]
    assert auc(right, wrong) == pytest.approx(np.mean(wins))
    assert math.isnan(auc([], wrong))


def test_agreement_follows_order_alone():
    exact = agreement([1.0, 2.0, 40.0], [0.2, 0.9, 1.0])
    assert (exact.rank_correlation, exact.strict_auc, exact.count) == (pytest.approx(1), 1, 3)
