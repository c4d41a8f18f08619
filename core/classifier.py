"""Which classifier is in force, and what came before it? Pure data."""

from dataclasses import dataclass

#: Where trained classifiers lie in the object store: one prefix each, never reused.
CLASSIFIERS = "classifiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierVersion:
    """One classifier that was trained here from images that had been made here."""

    id: str  #: digest of its files, which lie under `classifiers/<id>/`
    made_at: float  #: epoch s
    cause: str  #: why it came into force, for a person
    images: int = 0  #: scored images it was trained on, beside the labels that ship
    error: float = 0.0  #: mean squared, on held-out prompts of what was scored lately
    error_before: float = 0.0  #: of the classifier it took the place of, on the same prompts
    is_shipped: bool = False  #: the one that came with the models: there are no files of its own


def classifier_key(version_id: str, name: str) -> str:
    """Name the object of one file of a classifier."""
    return f"{CLASSIFIERS}/{version_id}/{name}"
