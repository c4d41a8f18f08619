"""Number the forms in which things are kept and sent, so that versions can work side by side.

A form changes, and this version's number grows, when who knows the form before would misread the
new one. A field more that may be missing, or a key more, is no such change: readers leave out what
they do not know. A version reads what the one before it writes, and writes that itself until all
processes read the newer form (`storage/boards/schema.py`).
"""

from collections.abc import Mapping
from enum import StrEnum

from core.errors import NewerSchema


class Versioned(StrEnum):
    """What has a number. Where none is written it is 1."""

    RECORD = "record"  #: of a job: field `schema` of its hash
    MESSAGE = "message"  #: of a queue: header `schema`
    EVENT = "event"  #: of a job's stream: field `schema` of its entry
    PLAN = "plan"  #: field `schema` of its document
    STATE = "state"  #: where an image stands: field `version` of its document
    RECORDING = "recording"  #: of a template: entry `schema` of each file's metadata


#: Versioned -> the schema numbers that changed it; what is written bears the last of them in force.
CHANGES: Mapping[Versioned, tuple[int, ...]] = {
    Versioned.RECORD: (1,),
    Versioned.MESSAGE: (1,),
    Versioned.EVENT: (1,),
    Versioned.PLAN: (1,),
    Versioned.STATE: (1,),
    Versioned.RECORDING: (1,),
}


class Schema:
    """What one version reads, and what it may write by now."""

    def __init__(self, changes: Mapping[Versioned, tuple[int, ...]] = CHANGES) -> None:
        """Write as the version before does, until the store says that nobody reads less."""
        self._changes = changes
        self.number = max(max(numbers) for numbers in changes.values())  #: the newest it reads
        self.in_force = max(1, self.number - 1)  #: the newest it may write

    def stamp(self, form: Versioned) -> int:
        """Give the number that a thing written now bears."""
        return max(number for number in self._changes[form] if number <= self.in_force)

    def check(self, form: Versioned, found: int, name: str) -> None:
        """Refuse what a newer version wrote; `name` says which thing it is.

        Raises:
            NewerSchema: it has a form that this version does not know.
        """
        newest = self._changes[form][-1]
        if found > newest:
            raise NewerSchema(
                f"the {form} of {name} has schema {found}, and this version reads up to {newest}: "
                "a newer one wrote it, and must read it"
            )


#: Of this process. What it may write changes while it runs, for all that it writes at once.
SCHEMA = Schema()
