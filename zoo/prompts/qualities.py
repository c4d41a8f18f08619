"""Write prompts with their class and their quality at every level, for load and simulation.

They are those on which the shipped classifier is tested: none of them taught it anything, and each
was made eight times at every level. The class is the one that the classifier tells.

    python -m zoo.prompts.qualities
"""

from pathlib import Path

import numpy as np

from classifier.encoder.installed import open_encoder
from classifier.labels import read_labels
from classifier.trained import TrainedClassifier
from core.settings import Settings
from loadgen.prompts import PromptSet, write_prompts

CLASSIFIER = Path("zoo/classifier")
TARGET = Path("zoo/qualities.jsonl")


def main() -> None:
    """Write the file."""
    labels = read_labels(CLASSIFIER / "test.jsonl.gz")
    classifier = TrainedClassifier(CLASSIFIER, open_encoder(Settings()))
    write_prompts(
        TARGET,
        PromptSet(
            texts=labels.prompts,
            classes=tuple(classifier.classify(labels.prompts)),
            levels=labels.levels,
            quality=labels.mean.astype(np.float64),
        ),
    )


if __name__ == "__main__":
    main()
