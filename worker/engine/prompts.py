"""Encode prompts in a thread of their own, beside the steps of others."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from worker.engine.slot import Ticket
from worker.futures import tried

#: Of the thread that encodes.
THREAD = "prompts"
#: Of a step, how long the others wait for a prompt that is nearly encoded.
SHARE_WAITED = 0.125
#: And how many steps they take without whoever's prompt takes longer.
MOST_STEPS = 8
#: Weight of the newest prompt in what they usually take.
_SMOOTHING = 0.2


@dataclass(slots=True, eq=False)
class PromptEncoding:
    """Prompts on their way to images that are not yet open. Any method from any thread."""

    _lock: Lock = field(default_factory=Lock)
    _pool: ThreadPoolExecutor | None = None  #: one thread, begun with the first prompt
    _is_closed: bool = False
    _usual_s: dict[str, float] = field(default_factory=dict)  #: by model, smoothed

    def begin(self, ticket: Ticket) -> None:
        """Encode the prompt of a job, if that can be done before its images are opened."""
        encode = ticket.runner.encoding(ticket.job.request)
        if encode is None:
            return

        def timed() -> None:
            began = time.perf_counter()
            tried(encode)  # whatever fails fails again where its image is opened
            self._note(ticket.runner.model.name, time.perf_counter() - began)

        with self._lock:
            if not self._is_closed:
                self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=THREAD)
                ticket.encoded = self._pool.submit(timed)

    def is_awaited(self, ticket: Ticket, step_s: float) -> bool:
        """Tell whether the next step waits for a prompt: it takes little of one, or came long ago.

        Args:
            step_s: of the others (s).
        """
        if ticket.encoded is None or ticket.encoded.done() or ticket.steps_missed >= MOST_STEPS:
            return True
        return self._usual_s.get(ticket.runner.model.name, 0.0) <= SHARE_WAITED * step_s

    def close(self) -> None:
        """Begin no more."""
        with self._lock:
            self._is_closed = True
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)

    def _note(self, model: str, seconds: float) -> None:
        usual_s = self._usual_s.get(model, seconds)
        self._usual_s[model] = usual_s + _SMOOTHING * (seconds - usual_s)
