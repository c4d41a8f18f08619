"""Persistent cache of recorded activations: local disk, then the object store.

A folder a recording, a file a step. Several workers of a machine may share the folder, all workers
the store. What is damaged or gone was never recorded: nothing here fails a job.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from core.errors import ObjectMissing, Unavailable
from core.log import get_logger
from core.recipe import NAME_DIGITS
from storage.objects.recordings import manifest_key, step_key
from storage.objects.store import ObjectStore
from worker.masking.quantised import Blocks
from worker.masking.recording import Recording, pack

log = get_logger(__name__)

_ENDING = ".safetensors"
_TYPE = "application/octet-stream"


class RecordingCache:
    """Recordings by digest. Slow: not for the engine's thread."""

    def __init__(self, folder: Path, budget_bytes: int, objects: ObjectStore | None = None) -> None:
        """Keep so much on disk, and whatever was recorded in `objects` if they are given."""
        self._folder = folder
        self._budget_bytes = budget_bytes
        self._objects = objects

    def find(self, digest: str) -> Recording | None:
        """Find a recording on disk, or bring it there."""
        files = self._files(digest)
        if files:
            self._touch(digest)
            return Recording(files=files, tier="disk")
        if self._objects is not None and self._download(digest, self._objects):
            return Recording(files=self._files(digest), tier="store")
        return None

    def names(self) -> tuple[str, ...]:
        """Name the recordings on disk, the last used one last."""
        try:
            folders = [(entry.stat().st_mtime, entry.name) for entry in os.scandir(self._folder)]
        except OSError:  # there is none yet, or another worker has just removed one
            return ()
        return tuple(digest[:NAME_DIGITS] for _, digest in sorted(folders))

    def save(self, digest: str, steps: Mapping[int, Blocks]) -> dict[int, Path]:
        """Write the steps of a recording to disk; give their files."""
        try:
            for position, blocks in steps.items():
                self._write(digest, position, pack(blocks))
            self._touch(digest)
            self._evict(kept=digest)
        except OSError as error:
            log.warning("recording_not_saved", reason=str(error))
        return self._files(digest)

    def upload(self, digest: str, files: Mapping[int, Path]) -> None:
        """Put the files of a recording in the object store."""
        if self._objects is None:
            return
        try:
            for position, path in files.items():
                self._objects.put(step_key(digest, position), path.read_bytes(), _TYPE)
            self._objects.put(manifest_key(digest), json.dumps(sorted(files)).encode(), _TYPE)
        except (OSError, Unavailable) as error:
            log.warning("recording_not_uploaded", reason=str(error))

    def forget(self, path: Path) -> None:
        """Remove the file of a step that is damaged: the template is recorded again."""
        path.unlink(missing_ok=True)

    def _files(self, digest: str) -> dict[int, Path]:
        found = (self._folder / digest).glob(f"*{_ENDING}")
        return {int(path.stem): path for path in found}

    def _download(self, digest: str, objects: ObjectStore) -> bool:
        try:
            manifest = objects.get(manifest_key(digest))
            for position in map(int, json.loads(manifest)):
                self._write(digest, position, objects.get(step_key(digest, position)))
            objects.put(manifest_key(digest), manifest, _TYPE)  # it was used now
            self._touch(digest)
            self._evict(kept=digest)
        except ObjectMissing:
            return False
        except (OSError, ValueError, Unavailable) as error:
            log.warning("recording_not_downloaded", reason=str(error))
            return False
        return True

    def _write(self, digest: str, position: int, data: bytes) -> None:
        """Put one file in its place as a whole; a cache need not survive a power cut."""
        folder = self._folder / digest
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, beside = tempfile.mkstemp(dir=folder, suffix=".part")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(beside, folder / f"{position}{_ENDING}")

    def _touch(self, digest: str) -> None:
        """Note that a recording is used now, finer than a file system does by itself."""
        now = time.time_ns()
        os.utime(self._folder / digest, ns=(now, now))

    def _evict(self, kept: str) -> None:
        """Remove the recordings that were not used for longest, until the budget holds."""
        folders = {each: _size_of(each) for each in self._folder.iterdir() if each.is_dir()}
        over = sum(folders.values()) - self._budget_bytes
        for folder in sorted(folders, key=lambda each: each.stat().st_mtime):
            if over <= 0:
                return
            if folder.name != kept or folders[folder] > self._budget_bytes:
                shutil.rmtree(folder, ignore_errors=True)
                over -= folders[folder]


def _size_of(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder))
