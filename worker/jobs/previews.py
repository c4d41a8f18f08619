"""Previews of jobs that somebody watches: asked for at a step, painted beside it, written down."""

import base64
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from threading import Lock

import msgspec
from PIL import Image

from core.log import get_logger, log_errors
from worker.diffusion.runner import Pixels
from worker.engine.slot import Slot

log = get_logger(__name__)

#: Between two previews of a job.
PAUSE_S = 1.0
#: So long it is remembered when a job was last shown, or that its followers wait.
FORGET_S = 60.0
#: Of JPEG, of 100.
QUALITY = 80

Painter = Callable[[], Pixels]


class Previews:
    """The previews of one worker. `note` belongs to the engine's thread, the rest to any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wanted: dict[str, float] = {}  #: since when, by job id
        self._shown: dict[str, float] = {}  #: when last, by job id
        self._made: dict[str, str] = {}  #: documents that nobody has taken yet, by job id
        self._lock = Lock()
        self._painters = ThreadPoolExecutor(1, "previews")

    def want(self, watched: Collection[str]) -> None:
        """Show these jobs at their next step, unless they were shown just now."""
        if not watched and not self._wanted and not self._shown:
            return
        now = self._clock()
        with self._lock:
            for times in (self._wanted, self._shown):
                for job_id in [i for i, at in times.items() if at + FORGET_S < now]:
                    del times[job_id]
            for job_id in watched:
                if self._shown.get(job_id, -FORGET_S) + PAUSE_S <= now:
                    self._wanted.setdefault(job_id, now)

    def note(self, batch: Sequence[Slot]) -> None:
        """Look at the images that are wanted, after a step of theirs."""
        if not self._wanted:
            return
        with log_errors(log, "previews_not_taken"):  # the step itself has been taken
            for job_id in {slot.ticket.job.id for slot in batch} & self._wanted.keys():
                self._look(job_id, [slot for slot in batch if slot.ticket.job.id == job_id])

    def take(self) -> Mapping[str, str]:
        """Take the documents that are new, by job id."""
        if not self._made:
            return {}
        with self._lock:
            made, self._made = self._made, {}
        return made

    def close(self) -> None:
        """Paint no more."""
        self._painters.shutdown(wait=False, cancel_futures=True)

    def _look(self, job_id: str, slots: Sequence[Slot]) -> None:
        with self._lock:  # so that a look that fails is not tried at every step
            since = self._wanted.pop(job_id, 0.0)
            self._shown[job_id] = self._clock()
        looks = {s.index: s.ticket.runner.preview(s.sample, s.request) for s in slots}
        painters = {index: paint for index, paint in looks.items() if paint is not None}
        if not painters:
            with self._lock:
                self._wanted[job_id] = since
            return
        ticket = slots[0].ticket
        self._painters.submit(
            self._paint, job_id, ticket.progress.step, painters, is_one=ticket.request.n == 1
        )

    def _paint(
        self, job_id: str, step: int, painters: Mapping[int, Painter], *, is_one: bool
    ) -> None:
        with log_errors(log, "preview_not_painted", job=job_id):
            pictures = {index: _jpeg(paint()) for index, paint in sorted(painters.items())}
            document: dict[str, object] = {"step": step, "preview": pictures[min(pictures)]}
            if not is_one:
                document["previews"] = {str(index): each for index, each in pictures.items()}
            with self._lock:
                self._made[job_id] = msgspec.json.encode(document).decode()


def _jpeg(pixels: Pixels) -> str:
    """Write a picture down, as base64."""
    written = BytesIO()
    Image.fromarray(pixels).save(written, "jpeg", quality=QUALITY)
    return base64.b64encode(written.getvalue()).decode()
