"""Interface of prompt classifiers: the affinity class of a prompt. Pure.

The class of a prompt is the fastest level that keeps its quality (Argus §3.2). Until a
trained classifier is at hand every prompt is of one class.
"""

from collections.abc import Sequence
from typing import Protocol

ANY = "any"  #: the only class there is without a trained classifier


class Classifier(Protocol):
    """Predicts affinity from the words of a prompt."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class it may answer."""
        ...

    def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt, in order."""
        ...


class OneClass:
    """Takes every prompt to be like any other."""

    classes: tuple[str, ...] = (ANY,)

    def classify(self, prompts: Sequence[str]) -> list[str]:
        """Answer `any` for each prompt."""
        return [ANY] * len(prompts)


class InForce:
    """The classifier in force: who holds this goes on with another one once that is put here."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier

    @property
    def classes(self) -> tuple[str, ...]:
        """Every class it may answer now."""
        return self.classifier.classes

    def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt, in order."""
        return self.classifier.classify(prompts)
