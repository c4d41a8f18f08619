"""The models served, by name: a mapping that follows its folder while processes run.

Whoever holds it sees models come and go. What a reader iterates over is one state of it, so that a
change in another thread disturbs nobody; a name that was there may be gone at the next look.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, replace
from pathlib import Path

from catalog.description.folder import Description
from catalog.models import Survey, read_models, survey
from catalog.qualities import read_qualities
from catalog.watch import FolderWatch
from core.errors import ConfigurationError
from core.log import get_logger
from core.model import Model

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChange:
    """What has become of a models folder since the last look."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  #: still there, described otherwise

    def __bool__(self) -> bool:
        """Tell whether anything has changed that a reader of models would notice."""
        return bool(self.added or self.removed or self.changed)


class Catalogue(Mapping[str, Model]):
    """The models of a folder. `refresh` is for one thread or task; everything else is for any."""

    def __init__(self, folder: Path, profile: Path | None = None) -> None:
        """Read the folder; one that is not there holds no models.

        `profile`: where qualities are that were measured of models which say none.

        Raises:
            ConfigurationError: a file cannot be read, or two describe one name; it names the file.
        """
        self.folder = folder
        self._profile = profile
        self._watch = FolderWatch(folder)
        self._watch.has_changed()  # before it is read: what comes meanwhile is noticed
        read_models(folder)  # raises where a survey leaves out
        self._found = self._survey()
        self._models = dict(self._found.models)

    def __getitem__(self, name: str) -> Model:
        """Give a model by its name."""
        return self._models[name]

    def __iter__(self) -> Iterator[str]:
        """List the names, of one state."""
        return iter(self._models)

    def __len__(self) -> int:
        """Count the models."""
        return len(self._models)

    def keys(self) -> KeysView[str]:
        """List the names, of one state."""
        return self._models.keys()

    def values(self) -> ValuesView[Model]:
        """List the models, of one state."""
        return self._models.values()

    def items(self) -> ItemsView[str, Model]:
        """List names and models, of one state."""
        return self._models.items()

    @property
    def descriptions(self) -> Mapping[str, Description]:
        """What the folders of models with weights are, by name."""
        return self._found.descriptions

    @property
    def refused(self) -> Mapping[str, str]:
        """Name of each folder that is no model -> why, and what would help."""
        return self._found.refused

    def refresh(self) -> ModelChange:
        """Look at the folder, and take over what has changed; a folder that is wrong is left out.

        Costs a few `stat` while nothing has changed, so that it may be called every second.
        """
        found = self.look()
        return ModelChange() if found is None else self.take(found)

    def look(self) -> Survey | None:
        """Read the folder if it has changed, to `take` it: this may wait for the disk.

        Raises:
            OSError: the folder cannot be read; the next look reads it again.
        """
        if not self._watch.has_changed():
            return None
        try:
            return self._survey()
        except OSError:
            self._watch = FolderWatch(self.folder)  # what has changed is noticed once more
            raise

    def take(self, found: Survey) -> ModelChange:
        """Take over what was found, in one go."""
        before, self._models = self._models, dict(found.models)
        told, self._found = self._found.refused, found
        for name, reason in found.refused.items():
            if told.get(name) != reason:
                log.warning("model_not_served", model=name, reason=reason)
        change = _difference(before, self._models)
        if change:
            log.info(
                "models_changed", added=change.added, removed=change.removed, changed=change.changed
            )
        return change

    def _survey(self) -> Survey:
        found = survey(self.folder)
        known = self._qualities()
        models = {
            name: replace(model, quality=known[name])
            if model.quality is None and name in known
            else model
            for name, model in found.models.items()
        }
        return replace(found, models=models)

    def _qualities(self) -> Mapping[str, float]:
        if self._profile is None:
            return {}
        try:
            return read_qualities(self._profile)
        except ConfigurationError as error:  # whoever needs it to be right has refused it
            log.warning("qualities_not_read", reason=str(error))
            return {}


def _difference(before: Mapping[str, Model], after: Mapping[str, Model]) -> ModelChange:
    return ModelChange(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(
            sorted(name for name in after.keys() & before.keys() if after[name] != before[name])
        ),
    )
