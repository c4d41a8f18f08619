"""Levels here draw by rules: what a teacher learned from lucky images is compared with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classifier.labels import Origin, labels_of
from zoo.quality import draws
from zoo.quality.distil import WEIGHT, distilled
from zoo.quality.teacher import Images, TeacherRecipe, expected, taught
from zoo.quality.verdict import apart
from zoo.scenes import Scene

LEVELS = ("tiny@0", "base@0")
RECIPE = TeacherRecipe(steps=120, decay_steps=100, warmup_steps=10, batch=64, average=0.9)


@pytest.fixture(scope="module")
def scenes() -> list[Scene]:
    return draws.tested()


def rule(scenes: list[Scene]) -> np.ndarray:
    """The slow level draws all; the fast one no place that it is told. [P, L] qualities."""
    placed = np.array([any(figure.place for figure in scene.figures) for scene in scenes])
    return np.stack([np.where(placed, 0.35, 0.85), np.full(len(scenes), 0.85)], axis=1)


def lucky_images(scenes: list[Scene], count: int) -> Images:
    """Each is right by chance, so that qualities are those of the rule on average."""
    rng = np.random.default_rng(0)
    rows, levels = (rng.integers(size, size=count) for size in (len(scenes), len(LEVELS)))
    right = rng.random(count) < rule(scenes)[rows, levels]
    verdicts = np.stack([right, right], axis=1).astype(np.float32)
    return Images(
        rows=torch.from_numpy(rows),
        levels=torch.from_numpy(levels),
        verdicts=torch.from_numpy(verdicts),
    )


@pytest.mark.long
def test_a_teacher_sees_through_luck_and_knows_scenes_it_was_never_shown(
    scenes: list[Scene],
) -> None:
    shown, others = scenes[:200], scenes[200:]
    teacher = taught(shown, lucky_images(shown, 2000), len(LEVELS), RECIPE)
    found = expected([teacher], others)
    assert np.abs(found - rule(others)).mean() < 0.12
    placed = rule(others)[:, 0] < 0.5
    assert found[placed, 0].max() < found[~placed, 0].min()


def test_equal_runs_expect_the_same(scenes: list[Scene]) -> None:
    some, recipe = scenes[:8], replace(RECIPE, steps=2)
    one, other = (taught(some, lucky_images(some, 50), len(LEVELS), recipe) for _ in range(2))
    assert np.array_equal(expected([one], some), expected([other], some))
    alone, together = expected([one], some[:1]), expected([one], some)[:1]
    assert alone == pytest.approx(together, abs=1e-6)


def test_a_quality_says_whether_all_is_right_and_how_much_is() -> None:
    strict, share = np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.75, 0.0])
    found = apart((strict + share) / 2)
    assert np.array_equal(found, [strict, share])


def test_what_teachers_expect_is_put_down_for_every_level_of_different_prompts(
    scenes: list[Scene],
) -> None:
    some = list({scene.caption: scene for scene in scenes}.values())[:12]
    rows = [(scene.caption, {"tiny@0": [1.0, 0.25]}) for scene in [*some[:10], *some[:6]]]
    labels = labels_of(LEVELS, rows, Origin(steps=10))
    recipes = [replace(RECIPE, seed=seed, steps=2) for seed in range(2)]
    found = distilled(labels, [*some, *some[:6]], recipes)
    assert found.prompts == tuple(scene.caption for scene in some)
    assert (found.levels, found.origin) == (LEVELS, Origin(steps=10))
    assert np.all(found.weights == WEIGHT)
    assert np.all((found.mean > 0) & (found.mean < 1))
