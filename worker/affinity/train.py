"""How is a classifier trained? On labels of any origin, in folds: no prompt is judged by itself."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from core.errors import ConfigurationError
from worker.affinity.calibrate import platt
from worker.affinity.classes import classes_of
from worker.affinity.encoder import Encoder, Floats
from worker.affinity.evaluate import evaluation_of
from worker.affinity.fit import Recipe, fit
from worker.affinity.heads import logits_of, sigmoid
from worker.affinity.kin import kin
from worker.affinity.labels import Labels, merged
from worker.affinity.trained import BATCH, Card, save_classifier

FOLDS = 5
RECIPE = Recipe()
#: Fewer prompts than this teach nothing.
MIN_PROMPTS = 10 * FOLDS

#: Called with the number of prompts that were just read, and again with those just learned from.
Tick = Callable[[int], None]


def train(
    labels: Labels,
    encoder: Encoder,
    folder: Path,
    *,
    recipe: Recipe = RECIPE,
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


def foretold(features: Floats, labels: Labels, recipe: Recipe, tick: Tick) -> Floats:
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


def _features(encoder: Encoder, labels: Labels, tick: Tick) -> Floats:
    """Read every prompt. Shapes: [P, F]."""
    found = []
    for first in range(0, len(labels.prompts), BATCH):
        some = labels.prompts[first : first + BATCH]
        found.append(encoder.features(some))
        tick(len(some))
    return np.concatenate(found)
