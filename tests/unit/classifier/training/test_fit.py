import numpy as np

from classifier.heads import kernel
from classifier.training.fit import TrainingRecipe, fit
from classifier.training.level_kernel import SHARED, kin
from classifier.training.solve import TOLERANCE, solved

LEVELS = ("tiny@0", "base@25", "base@20", "base@0")


def test_a_system_is_solved_as_well_as_it_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 5)).astype(np.float32)
    matrix = kernel(points, points) + 2 * np.eye(60, dtype=np.float32)
    wanted = rng.normal(size=(60, 3)).astype(np.float32)
    left = matrix @ solved(lambda x: matrix @ x, wanted) - wanted
    assert np.linalg.norm(left) <= 1.1 * TOLERANCE * np.linalg.norm(wanted)
    assert not solved(lambda x: matrix @ x, np.zeros_like(wanted)).any()


def test_levels_are_the_more_alike_the_nearer_their_steps() -> None:
    alike = kin(LEVELS)
    np.testing.assert_allclose(np.diag(alike), 1)
    np.testing.assert_allclose(alike[0, 1:], SHARED)
    assert SHARED < alike[1, 3] < alike[2, 3] < alike[1, 2] < 1
    assert np.linalg.eigvalsh(alike).min() > 0


def test_a_level_that_was_only_made_of_hard_prompts_is_not_taken_for_a_bad_one() -> None:
    """Which level a prompt is made at is the plan's choice: the mean of its labels misleads."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 8)).astype(np.float32)
    hard = 0.2 * np.tanh(features[:, 0])
    truth = np.stack([0.6 - hard, 0.7 - hard], axis=1).astype(np.float32)  # the second is better
    at = (hard > 0).astype(int)
    weights = np.eye(2, dtype=np.float32)[at]
    labels = truth * weights
    means = labels.sum(axis=0) / weights.sum(axis=0)
    assert means[1] < means[0]
    said = fit(features, labels, weights, kin(("tiny@0", "base@0")), TrainingRecipe(noise=0.1))(
        features
    )
    assert (said[:, 1] > said[:, 0]).mean() > 0.9


def test_a_label_that_tells_less_moves_what_is_expected_less() -> None:
    features = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    labels, weights = np.full((40, 1), 0.5, np.float32), np.ones((40, 1), np.float32)
    labels[0] = 1.0
    said = []
    for weight in (1.0, 0.25, 0.01):
        weights[0] = weight
        said.append(
            fit(features, labels, weights, kin(LEVELS[:1]), TrainingRecipe())(features[:1])[0, 0]
        )
    assert said[0] > said[1] > said[2] > 0.49
