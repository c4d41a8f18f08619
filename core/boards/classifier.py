"""Versions of the prompt classifier, and the object keys of their files. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass

#: Where trained classifiers lie in the object store: one prefix each, never reused.
CLASSIFIERS = "classifiers"
#: Names the one that came with the models, which has no files there.
SHIPPED = "shipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifierVersion:
    """A classifier that came into force here."""

    id: str  #: digest of its files, or `SHIPPED`
    made_at: float  #: epoch s: when it came into force
    cause: str  #: why, for a person
    images: int = 0  #: scored images it was trained on, beside the labels that ship
    error: float = 0.0  #: mean squared, on held-out prompts of what was scored lately
    error_before: float = 0.0  #: of the classifier it took the place of, on the same prompts
    base: str = ""  #: digest of the one that ships, or was trained by hand, where it was taught


def taught_from(base: str, versions: Sequence[ClassifierVersion]) -> list[ClassifierVersion]:
    """Keep the versions that were taught beside this base: another one takes their place.

    `base`: its digest; that of an older release has none, as its versions name none.
    """
    return [version for version in versions if version.base == base]


def classifier_key(version_id: str, name: str) -> str:
    """Name the object of one file of a classifier."""
    return f"{CLASSIFIERS}/{version_id}/{name}"
