"""LRU cache of template activations in host memory, over a persistent cache.

The engine never waits for the persistent cache: whoever knows that an edit comes prefetches. One
budget is for all that memory holds: what is kept makes room for recordings in progress and for
those that are not written yet, and where these leave no room, nothing more is recorded.
"""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from weakref import ref

from core.log import get_logger, log_errors
from core.telemetry import metrics
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
        # Weak: an edit may end at any step, and its recording with it.
        self._begun: list[ref[Recording]] = []
        self._unwritten: list[Recording] = []  #: finished, and held until the disk has them
        self._lock = threading.Lock()
        # Two threads, so that what an edit waits for is not behind what is put away.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="activations-read")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="activations-write")

    @property
    def num_bytes(self) -> int:
        """Bytes of what is kept in host memory."""
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

    def begin(self, expected_bytes: int = 0) -> Recording | None:
        """Begin a recording of so many bytes; None if it has no room beside what cannot be dropped.

        Alone it may be larger than the budget.
        """
        with self._lock:
            if not self._fits(expected_bytes, beside=self._held()):
                return None
            recording = Recording(expected_bytes=expected_bytes)
            self._begun.append(ref(recording))
            self._make_room()
        return recording

    def grow(self, recording: Recording, expected_bytes: int) -> bool:
        """Note how large a recording in progress gets; no if it is to be given up.

        It makes way for those that were begun before it.
        """
        with self._lock:
            recording.expected_bytes = expected_bytes
            before = takewhile(lambda each: each is not recording, self._in_progress())
            beside = self._unwritten_bytes() + sum(each.expected_bytes for each in before)
            if not self._fits(expected_bytes, beside=beside):
                return False
            self._make_room()
        return True

    def add(self, key: RecordingKey, recording: Recording) -> None:
        """Keep a finished recording; on disk, too, unless that is too far behind."""
        shelf, size = self._shelf, recording.num_bytes
        with self._lock:
            self._begun = [each for each in self._begun if each() is not recording]
            is_behind = not self._fits(size, beside=self._unwritten_bytes())
            if shelf is not None and not is_behind:
                self._unwritten.append(recording)
        self._keep(key, recording)
        if shelf is None:
            return
        if is_behind:
            metrics.recordings_dropped.labels("not_saved").inc()
        else:
            self._writer.submit(self._save, shelf, key, recording)

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
        """Make room for a recording as it is now; no if there is not enough even without others."""
        size = recording.num_bytes
        with self._lock:
            self._kept.pop(key, None)
            room = self.budget_bytes if recording in self._unwritten else self._room()
            if size > room:
                return False
            self._kept[key] = recording, size
            self._make_room()
        return True

    def _make_room(self) -> None:
        """Drop what was not used for longest until the rest fits."""
        droppable = {
            key: size
            for key, (recording, size) in self._kept.items()
            if recording not in self._unwritten  # which would free nothing yet
        }
        over = sum(droppable.values()) - self._room()
        for key, size in droppable.items():
            if over <= 0:
                return
            del self._kept[key]
            over -= size

    def _room(self) -> int:
        """Say how many bytes there are for what can be dropped."""
        held = self._held()
        # One that is over the budget by itself has nothing make room: that would not be enough.
        return self.budget_bytes - held if held <= self.budget_bytes else self.budget_bytes

    def _fits(self, num_bytes: int, *, beside: int) -> bool:
        """Tell whether memory can hold a recording beside others; it can hold one alone."""
        return not beside or beside + num_bytes <= self.budget_bytes

    def _held(self) -> int:
        """Sum the bytes of what cannot be dropped."""
        return self._unwritten_bytes() + sum(each.expected_bytes for each in self._in_progress())

    def _unwritten_bytes(self) -> int:
        return sum(recording.num_bytes for recording in self._unwritten)

    def _in_progress(self) -> list[Recording]:
        """List the recordings in progress that somebody still makes, as they were begun."""
        alive = [(each, found) for each in self._begun if (found := each()) is not None]
        self._begun = [each for each, _ in alive]
        return [found for _, found in alive]

    def _save(self, shelf: RecordingCache, key: RecordingKey, recording: Recording) -> None:
        with log_errors(log, "recording_not_saved", template=key.recipe.template):
            recording.files = shelf.save(key.digest, recording.steps)
            shelf.upload(key.digest, recording.files)
        with self._lock:
            self._unwritten.remove(recording)
            self._make_room()

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
