"""State what a mutant is: one small change to one file, and where it is."""

from dataclasses import dataclass

Change = tuple[str, str]  #: a change whatever its line: scope, and `before -> after`


def change_of(scope: str, before: str, after: str) -> Change:
    """Name a change independently of its line."""
    return scope, f"{before} -> {after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One file with one small change."""

    path: str  #: of the file, from the root of the repository
    line: int  #: in the file as it is
    scope: str  #: class and function around the change
    before: str  #: what was changed, as source
    after: str  #: what it was changed to
    source: str  #: the whole file, changed

    @property
    def change(self) -> Change:
        """Name what was changed."""
        return change_of(self.scope, self.before, self.after)

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.scope}: {self.before} -> {self.after}"
