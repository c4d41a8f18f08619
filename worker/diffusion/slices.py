"""Run calls of decoders a slice at a time, between the steps of others.

A call has a thread of its own, which computes only while the engine's waits for it: where a layer
begins it gives way if its slice would be over before the layer is. So it computes what it would
have computed at once, in the same order, and no two threads ever compute at a time.
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from worker.futures import resolve

if TYPE_CHECKING:
    from torch import nn  # not every family needs it

_here = threading.local()  #: of the thread of a call: its `_Baton`


class Abandoned(BaseException):
    """Ends a call that nobody waits for any more."""


def give_way_in(module: "nn.Module") -> None:
    """Have the calls of a module give way at the beginning of each of its layers."""
    for part in module.modules():
        if next(part.children(), None) is None:
            part.register_forward_pre_hook(_give_way)


def give_way(part: object) -> None:
    """Give way before a part of a call, if its slice is over by then or would be."""
    baton: _Baton | None = getattr(_here, "baton", None)
    if baton is not None:
        baton.pause(part)


def _give_way(layer: "nn.Module", _: object) -> None:
    give_way(layer)


class _Baton:
    """Goes from one thread to the other: whoever has it computes."""

    def __init__(self) -> None:
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._until: float | None = None
        #: Seconds that each layer took when it was called last.
        self._took: weakref.WeakKeyDictionary[object, float] = weakref.WeakKeyDictionary()
        self.call: Callable[[], Any] | None = None
        self.made: Future[Any] = Future()  #: what it returned or raised, once it has ended
        self.has_paused = self.is_over = False
        self._layer: object = None  #: that the call is in
        self._since = 0.0  #: when (s, of `perf_counter`)

    def hand_over(self, until: float | None) -> None:
        """Let the call run until then, or to its end; wait until it gives way."""
        self._until = until
        self._go.release()
        self._back.acquire()

    def pause(self, layer: object) -> None:
        """Give way if the slice is over before this layer of the call is."""
        now = self._end_layer()
        if self._until is not None and now + self._took.get(layer, 0.0) >= self._until:
            self.has_paused = True
            self._back.release()
            self._go.acquire()
            if self.is_over:
                raise Abandoned
            now = time.perf_counter()
        self._layer, self._since = layer, now

    def _end_layer(self) -> float:
        """Note how long the last layer took; give the time (s, of `perf_counter`)."""
        now = time.perf_counter()
        if self._layer is not None:
            self._took[self._layer] = now - self._since
        self._layer = None
        return now

    def serve(self) -> None:
        """Make call after call, in a thread of its own, until it is over."""
        _here.baton = self
        while True:
            self._go.acquire()
            if self.is_over or self.call is None:
                return
            resolve(self.made, self.call)
            self._end_layer()
            self.call = None
            self._back.release()
            if self.is_over:
                return

    def close(self) -> None:
        """End the thread, in whatever layer it is."""
        self.is_over = True
        self._go.release()


@dataclass(frozen=True, slots=True)
class _Waiting:
    call: Callable[[], Any]
    done: Callable[[Any], object]
    slicing: Callable[[], Any]  #: makes the context of each slice


class Slices:
    """Calls that are made one after the other, a slice at a time. Belongs to one thread."""

    def __init__(self) -> None:
        self._waiting: deque[_Waiting] = deque()
        self._baton: _Baton | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, call: Callable[[], Any], done: Callable[[Any], object], slicing: Callable[[], Any]
    ) -> None:
        """Make a call when its turn comes; `done` hears what it returned, in this thread.

        `slicing` makes the context in which each of its slices runs.
        """
        self._waiting.append(_Waiting(call, done, slicing))

    def run(self, until: float | None) -> bool:
        """Run the first call until then (s, of `perf_counter`), or to its end; tell if it ended.

        It runs to the beginning of its next layer at least; a whole call in this thread.
        """
        if until is None and (self._baton is None or self._baton.call is None):
            self._run_here(self._waiting.popleft())
            return True
        baton, first = self._at_work(), self._waiting[0]
        if baton.call is None:
            baton.call, baton.has_paused = first.call, False
        with first.slicing():
            baton.hand_over(until)
        if baton.call is not None:
            return False
        self._waiting.popleft()
        made, baton.made = baton.made, Future()
        first.done(made.result())
        return True

    def _run_here(self, waiting: _Waiting) -> None:
        with waiting.slicing():
            made = waiting.call()
        waiting.done(made)

    def is_over(self, until: float | None) -> bool:
        """Tell whether the time is over, and the last call one that could give way."""
        has_paused = self._baton is not None and self._baton.has_paused
        return until is not None and has_paused and time.perf_counter() >= until

    def clear(self) -> None:
        """Let go of all calls, also of one that has begun."""
        self._waiting.clear()
        if self._baton is not None:
            self._baton.close()
        self._baton = None

    def _at_work(self) -> _Baton:
        if self._baton is None:
            self._baton = baton = _Baton()
            threading.Thread(target=baton.serve, name="aside", daemon=True).start()
            weakref.finalize(self, baton.close)
        return self._baton
