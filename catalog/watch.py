"""Tell when a models folder has changed, by sizes and times of its files; no model is read."""

import os
from collections.abc import Iterator
from pathlib import Path

#: Folders of a model below its own that are looked at: those of its parts.
_DEEPEST = 2

#: Of each file: where it is, its bytes, when it was written, which file it is.
Signature = frozenset[tuple[str, int, int, int]]


class FolderWatch:
    """Notices new, changed and vanished files of the models of a folder. Not for several threads.

    A look costs one `stat` a file, some twenty a model. Links are followed: it is what they lead to
    that is served.
    """

    def __init__(self, folder: Path) -> None:
        """Watch a folder, which need not be there yet; its first look finds a change."""
        self._folder = folder
        self._seen: Signature | None = None

    def has_changed(self) -> bool:
        """Look, and tell whether anything is other than at the last look."""
        before, self._seen = self._seen, signature(self._folder)
        return before != self._seen


def signature(folder: Path) -> Signature:
    """Read what tells one state of a models folder from another."""
    return frozenset(_files(str(folder), ""))


def _files(folder: str, inside: str, depth: int = 0) -> Iterator[tuple[str, int, int, int]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:  # it has gone, or is no folder
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = f"{inside}{entry.name}"
        try:
            if entry.is_dir():
                yield path, 0, 0, 0
                if depth < _DEEPEST:
                    yield from _files(entry.path, f"{path}/", depth + 1)
            else:
                stat = entry.stat()
                yield path, stat.st_size, stat.st_mtime_ns, stat.st_ino
        except OSError:  # a link that leads nowhere, or gone since
            yield path, -1, 0, 0
