"""A fake of the encoder, and labels whose truth is known."""

from collections.abc import Sequence

import numpy as np

from classifier.encoder.encoder import Floats
from classifier.labels import Labels, labels_of

LEVELS = ("tiny@0", "base@20", "base@0")
WORDS = ("red", "blue", "star", "ring", "and", "striped")


class FakeEncoder:
    """Counts the words it knows."""

    name = "words"

    def features(self, prompts: Sequence[str]) -> Floats:
        return np.array([[p.split().count(word) for word in WORDS] for p in prompts], np.float32)


def truth_of(prompt: str) -> list[float]:
    """Know the quality at each level: what is joined is hard, what is striped needs every step."""
    hard, striped = prompt.split().count("and"), "striped" in prompt
    return [0.95 - 0.25 * hard, 0.95 - 0.6 * striped - 0.05 * hard, 0.95 - 0.05 * hard]


def some_labels(count: int, *, share: float = 1.0, repeats: int = 1, seed: int = 0) -> Labels:
    """Judge images of prompts, right or wrong as luck has it; a share of them only."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        parts = [" ".join(rng.choice(WORDS[:4], 2)) for _ in range(rng.integers(1, 4))]
        prompt = " and ".join(parts) + (" striped" if rng.random() < 0.5 else "")
        judged = {
            level: [float(rng.random() < quality) for _ in range(repeats)]
            for level, quality in zip(LEVELS, truth_of(prompt), strict=True)
            if rng.random() < share
        }
        rows.append((prompt, judged))
    return labels_of(LEVELS, rows)
