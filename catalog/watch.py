"""Tell when a models folder has changed, by sizes and times of its files; no model is read.

Of models that are loaded also whether their weights are others by now, which their descriptions
need not show.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from catalog.weights import fingerprint

#: Folders of a model below its own that are looked at: those of its parts.
_DEEPEST = 2

#: Seconds for which nothing was written to a folder that is copied no more.
SETTLED_S = 5.0

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


class LoadedWeights:
    """Notices folders whose weights are not those that were loaded from them.

    `note` may be called from any thread, `replaced` from one.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare, for the models of a folder; `clock` in s."""
        self._folder, self._clock = folder, clock
        self._loaded: dict[str, str] = {}  #: fingerprints, by model
        self._seen: dict[str, tuple[Signature, float]] = {}  #: states of folders, and since when
        self._read: dict[str, tuple[Signature, str]] = {}  #: weights, and in which state

    def note(self, name: str, weights: str) -> None:
        """Note the fingerprint of what is about to be loaded: it may change before that is over."""
        self._loaded[name] = weights

    def replaced(self, names: Iterable[str]) -> list[str]:
        """Name those of these models whose folders hold other weights, once they are whole."""
        return [name for name in names if name in self._loaded and self._is_replaced(name)]

    def _is_replaced(self, name: str) -> bool:
        found = self._weights_of(name)
        return found is not None and found != self._loaded[name]

    def _weights_of(self, name: str) -> str | None:
        """Read the weights of a folder that has been as it is for `SETTLED_S`, once."""
        now = signature(self._folder / name)
        known, weights = self._read.get(name, (None, None))
        if now == known:
            return weights
        seen, since = self._seen.get(name, (None, 0.0))
        if now != seen:
            self._seen[name] = now, self._clock()
            return None
        if self._clock() - since < SETTLED_S:
            return None
        try:
            weights = fingerprint(self._folder / name)
        except OSError:  # it goes meanwhile, or is written after all
            return None
        self._read[name] = now, weights
        return weights


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
