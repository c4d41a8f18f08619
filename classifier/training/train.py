"""Train a classifier from labels, with cross-validated predictions."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from classifier.classes import classes_of
from classifier.encoder.encoder import Floats, SentenceEncoder
from classifier.heads import logits_of, sigmoid
from classifier.labels import Labels, merged
from classifier.trained import BATCH, Card, save_classifier
from classifier.training.calibrate import platt
from classifier.training.evaluate import evaluation_of
from classifier.training.fit import TrainingRecipe, fit
from classifier.training.level_kernel import kin
from core.errors import ConfigurationError

FOLDS = 5
RECIPE = TrainingRecipe()
#: Fewer prompts than this teach nothing.
MIN_PROMPTS = 10 * FOLDS

#: Called with the number of prompts that were just read, and again with those just learned from.
Tick = Callable[[int], None]


def train(
    labels: Labels,
    encoder: SentenceEncoder,
    folder: Path,
    *,
    recipe: TrainingRecipe = RECIPE,
    tick: Tick = lambda read: None,
) -> Path:
    """Train a classifier and write it to a folder; the encoder stays as it is.

    Raises:
        ConfigurationError: there are too few labels.
    """
    if len(labels.prompts) < MIN_PROMPTS:
        few = f"{len(labels.prompts)} labelled prompts"
        raise ConfigurationError(f"{few} are too few to train on: {MIN_PROMPTS} are the least")
    different = merged(labels)
    features = _features(encoder, different, tick)
    unseen = logits_of(foretold(features, different, recipe, tick))[_places(labels, different)]
    slope, offset = platt(unseen, labels.mean, labels.weights)
    expected = sigmoid(unseen * slope + offset)
    alike = kin(labels.levels)
    heads = fit(features, different.mean, different.weights, alike, recipe)
    card = Card(
        levels=labels.levels,
        encoder=encoder.name,
        classes=classes_of(labels, expected),
        origin=labels.origin,
        labels=int(labels.counts.sum()),
        figures=evaluation_of(expected, labels).figures(),
    )
    save_classifier(folder, card, heads.calibrated(slope, offset))
    return folder


def foretold(features: Floats, labels: Labels, recipe: TrainingRecipe, tick: Tick) -> Floats:
    """Expect the quality of each prompt by the folds it is not in. Shapes: [P, F] -> [P, L].

    `labels`: of different prompts.
    """
    fold_of = np.random.default_rng(0).permutation(len(labels.prompts)) % FOLDS
    alike = kin(labels.levels)
    expected = np.zeros((len(labels.prompts), len(labels.levels)), np.float32)
    for fold in range(FOLDS):
        seen = fold_of != fold
        heads = fit(features[seen], labels.mean[seen], labels.weights[seen], alike, recipe)
        expected[~seen] = heads(features[~seen])
        tick(int((~seen).sum()))
    return expected


def _places(labels: Labels, different: Labels) -> list[int]:
    """Find the row of each prompt among the different ones."""
    row_of = {prompt: row for row, prompt in enumerate(different.prompts)}
    return [row_of[prompt] for prompt in labels.prompts]


def _features(encoder: SentenceEncoder, labels: Labels, tick: Tick) -> Floats:
    """Read every prompt. Shapes: [P, F]."""
    found = []
    for first in range(0, len(labels.prompts), BATCH):
        some = labels.prompts[first : first + BATCH]
        found.append(encoder.features(some))
        tick(len(some))
    return np.concatenate(found)
