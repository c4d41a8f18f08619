"""Encode prompts: brief ones between two steps, others in a thread beside the steps.

IP-Adapters are loaded in a thread of their own: no prompt waits behind gigabytes.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from statistics import median_low
from threading import Lock

from worker.diffusion.runner import AdapterLoad
from worker.engine.slot import Ticket
from worker.futures import tried

#: Of the thread that encodes, and of that which loads IP-Adapters.
THREAD, LOADER = "prompts", "adapters"
#: Of a step, how long the others wait for a prompt at most, once an image.
SHARE_WAITED = 1 / 20
#: And how many steps they take without whoever's prompt takes longer.
MOST_STEPS = 8
#: Prompts that say how long they usually take.
_WINDOW = 9


@dataclass(slots=True, eq=False)
class PromptEncoding:
    """Prompts on their way to images that are not yet open. Any method from any thread."""

    _lock: Lock = field(default_factory=Lock)
    _pool: ThreadPoolExecutor | None = None  #: one thread, begun with the first long prompt
    _loads: ThreadPoolExecutor | None = None  #: one thread, begun with the first IP-Adapter
    _num_loading: int = 0
    _is_closed: bool = False
    _took: dict[str, deque[float]] = field(default_factory=dict)  #: lately, by model (s)

    def begin(self, ticket: Ticket, encode: Callable[[], object], step_s: float | None) -> None:
        """Encode the prompt of a job beside the steps of others, or leave it to `finish`.

        A brief one is left: where no core is spare a thread would take as much from their step,
        and nobody could say from which.

        Args:
            step_s: of the others (s); None: nobody steps.
        """
        if isinstance(encode, AdapterLoad):
            self._load(ticket, encode)
            return
        timed = partial(self._encode, ticket, encode)
        if step_s is None or self._is_brief(ticket, step_s):
            ticket.encode = timed
        else:
            with self._lock:
                if not self._is_closed:
                    self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix=THREAD)
                    ticket.encoded = self._pool.submit(timed)

    def finish(self, ticket: Ticket) -> None:
        """Encode the prompt of a job now, or wait for whoever does. Raises: what loading raised."""
        encode, ticket.encode = ticket.encode, None
        if encode is not None:
            encode()
        elif ticket.encoded is not None:
            wait([ticket.encoded])
            if ticket.loads:
                ticket.encoded.result()

    def is_awaited(self, ticket: Ticket, step_s: float) -> bool:
        """Tell whether the next step waits for a prompt: it takes little of one, or came long ago.

        Args:
            step_s: of the others (s).
        """
        if ticket.encoded is None or ticket.encoded.done() or ticket.steps_missed >= MOST_STEPS:
            return True
        return self._usual_s(ticket, unknown_s=0.0) <= SHARE_WAITED * step_s

    def close(self) -> None:
        """Begin no more."""
        with self._lock:
            self._is_closed = True
            for pool in (self._pool, self._loads):
                if pool is not None:
                    pool.shutdown(wait=False, cancel_futures=True)

    @property
    def is_at_load(self) -> bool:
        """Whether an IP-Adapter is loaded just now."""
        return self._num_loading > 0

    def _load(self, ticket: Ticket, encode: Callable[[], object]) -> None:
        with self._lock:
            if not self._is_closed:
                self._loads = self._loads or ThreadPoolExecutor(1, thread_name_prefix=LOADER)
                ticket.encoded = self._loads.submit(self._loaded, ticket, encode)
                ticket.loads = True

    def _loaded(self, ticket: Ticket, encode: Callable[[], object]) -> None:
        """Load what a job is shown to, unless it has left. Raises: what that raises."""
        if ticket.is_closed:
            return
        self._num_loading += 1
        made = tried(encode)
        self._num_loading -= 1
        if isinstance(made, Exception):
            # Their frames hold tensors, and the ticket holds this error.
            made.__traceback__ = made.__context__ = made.__cause__ = None
            raise made

    def _is_brief(self, ticket: Ticket, step_s: float) -> bool:
        return self._usual_s(ticket, unknown_s=float("inf")) <= SHARE_WAITED * step_s

    def _encode(self, ticket: Ticket, encode: Callable[[], object]) -> None:
        began, computed = time.perf_counter(), time.thread_time()
        tried(encode)  # whatever fails fails again where its image is opened
        took_s, computed_s = time.perf_counter() - began, time.thread_time() - computed
        # A core that is shared with the engine makes it take twice as long, a disk even longer.
        seconds = max(computed_s, took_s / 2)
        with self._lock:
            took = self._took.setdefault(ticket.runner.model.name, deque(maxlen=_WINDOW))
            took.append(seconds)

    def _usual_s(self, ticket: Ticket, unknown_s: float) -> float:
        with self._lock:
            took = self._took.get(ticket.runner.model.name)
            return median_low(took) if took else unknown_s
