"""LRU cache of template activations in host memory, over a persistent cache.

The engine never waits for the persistent cache: whoever knows that an edit comes prefetches.
"""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from core.log import get_logger, log_errors
from worker.masking.cache import RecordingCache
from worker.masking.quantised import FlatStep
from worker.masking.recording import DamagedRecording, Recording, RecordingKey, read_blocks

log = get_logger(__name__)


class Activations:
    """The recordings of one worker; of those in memory the least recently used one leaves first.

    Every method may be called from any thread and returns at once.
    """

    def __init__(self, budget_bytes: int, shelf: RecordingCache | None = None) -> None:
        self.budget_bytes = budget_bytes
        self._shelf = shelf
        self._kept: OrderedDict[RecordingKey, tuple[Recording, int]] = OrderedDict()
        self._lock = threading.Lock()
        # Two threads, so that what an edit waits for is not behind what is put away.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="activations-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="activations-write")

    @property
    def num_bytes(self) -> int:
        """Bytes in host memory."""
        with self._lock:
            return sum(size for _, size in self._kept.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Name the recordings in host memory, the last used one last."""
        with self._lock:
            return tuple(key.recipe.name for key, (kept, _) in self._kept.items() if kept.steps)

    def shelved(self) -> tuple[str, ...]:
        """Name the recordings on disk likewise. Takes a while: not for the engine's thread."""
        return self._shelf.names() if self._shelf is not None else ()

    def find(self, key: RecordingKey) -> Recording | None:
        """Look up what is at hand."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def add(self, key: RecordingKey, recording: Recording) -> None:
        """Keep a finished recording."""
        self._keep(key, recording)
        if self._shelf is not None:
            self._writer.submit(self._save, self._shelf, key, recording)

    def prefetch(self, key: RecordingKey) -> None:
        """Bring a recording at hand, if a shelf has it: an edit comes that may use it."""
        if self._shelf is not None and self.find(key) is None:
            self._reader.submit(self._fetch, self._shelf, key)

    def settle(self) -> None:
        """Return once everything asked for so far is done."""
        for pool in (self._writer, self._reader):
            pool.submit(lambda: None).result()

    def close(self) -> None:
        """Drop what is not done yet."""
        for pool in (self._writer, self._reader):
            pool.shutdown(wait=False, cancel_futures=True)

    def _keep(self, key: RecordingKey, recording: Recording) -> bool:
        """Make room for a recording as it is now; no if it alone is over the budget."""
        size = recording.num_bytes
        with self._lock:
            self._kept.pop(key, None)
            if size > self.budget_bytes:
                return False
            self._kept[key] = recording, size
            over = sum(each for _, each in self._kept.values()) - self.budget_bytes
            while over > 0:
                over -= self._kept.popitem(last=False)[1][1]
        return True

    def _save(self, shelf: RecordingCache, key: RecordingKey, recording: Recording) -> None:
        with log_errors(log, "recording_not_saved", template=key.recipe.template):
            recording.files = shelf.save(key.digest, recording.steps)
            shelf.upload(key.digest, recording.files)

    def _fetch(self, shelf: RecordingCache, key: RecordingKey) -> None:
        """Put a recording of the shelf at hand, then its steps in memory, as many as fit."""
        with log_errors(log, "recording_not_found", template=key.recipe.template):
            found = shelf.find(key.digest) if self.find(key) is None else None
            if found is not None and self._keep(key, found):
                self._read_steps(shelf, key, found)

    def _read_steps(self, shelf: RecordingCache, key: RecordingKey, recording: Recording) -> None:
        for position, path in sorted(recording.files.items()):
            try:
                step = FlatStep.of(dict(read_blocks(path)))
            except DamagedRecording as error:
                log.warning("recording_damaged", reason=str(error))
                shelf.forget(path)
                del recording.files[position]
                continue
            recording.steps[position] = step
            if not self._keep(key, recording):
                del recording.steps[position]
                self._keep(key, recording)  # the other steps are read while the edit runs
                return
