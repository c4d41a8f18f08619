"""Distribute classifier files through the object store, by digest, with a local cache."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from classifier.trained import CARD, HEADS
from core.boards.classifier import CLASSIFIERS, SHIPPED, classifier_key
from core.settings import Settings
from storage.objects.store import ObjectStore, open_objects

#: The card is last: a folder without one is no classifier.
FILES = (HEADS, CARD)


class ClassifierFiles:
    """Classifiers in the object store, and a folder of those that were fetched here."""

    def __init__(self, objects: ObjectStore, *, folder: Path, shipped: Path) -> None:
        self._objects = objects
        self._folder = folder
        self._shipped = shipped

    def put(self, folder: Path) -> str:
        """Store what was trained in a folder; return the id that it has from now on.

        Raises:
            ObjectsUnavailable: the store cannot take it now.
        """
        parts = {name: (folder / name).read_bytes() for name in FILES}
        version_id = hashlib.sha256(b"".join(parts.values())).hexdigest()[:16]
        for name, data in parts.items():
            self._objects.put(classifier_key(version_id, name), data, "application/octet-stream")
        return version_id

    def get(self, version_id: str) -> Path:
        """Fetch a classifier, unless it is here, and return its folder.

        Raises:
            ObjectMissing: it is gone.
            ObjectsUnavailable: the store cannot serve now.
        """
        if version_id == SHIPPED:
            return self._shipped
        folder = self._folder / CLASSIFIERS / version_id
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if not (folder / name).exists():
                aside = folder / f"{name}.part"
                aside.write_bytes(self._objects.get(classifier_key(version_id, name)))
                aside.replace(folder / name)
        return folder

    def delete(self, version_ids: Iterable[str]) -> None:
        """Delete classifiers that nobody goes back to.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """
        self._objects.delete([classifier_key(each, name) for each in version_ids for name in FILES])


def open_files(settings: Settings) -> ClassifierFiles:
    """Open the object store that the settings name.

    Raises:
        ConfigurationError: it cannot be used.
    """
    objects = open_objects(settings)
    return ClassifierFiles(objects, folder=settings.data_dir, shipped=settings.classifier_path)
