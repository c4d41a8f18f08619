"""Model cache of ControlNets: evict the least popular that is not in use.

A few ControlNets get nearly all requests (Katz, Fig. 5), so they are hardly ever loaded again.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from core.errors import AtelierError, EngineError
from core.log import get_logger

log = get_logger(__name__)


class Residing(Protocol):
    """A ControlNet that takes memory."""

    @property
    def num_bytes(self) -> int: ...
    def close(self) -> None: ...


N = TypeVar("N", bound=Residing)

#: Uses after which an earlier use counts half: what was popular yesterday makes room.
HALF_LIFE = 100


class Popularity:
    """How often each ControlNet was used lately. Pure: its clock is the number of uses."""

    def __init__(self, half_life: int = HALF_LIFE) -> None:
        self._half_life = half_life
        self._uses = 0
        self._counts: dict[str, tuple[float, int]] = {}  #: count, and when it was that

    def note(self, name: str) -> None:
        """Count a use."""
        self._uses += 1
        self._counts[name] = (self.of(name) + 1, self._uses)

    def of(self, name: str) -> float:
        """Give the uses of a ControlNet, each counting less the longer ago it was."""
        count, at = self._counts.get(name, (0.0, 0))
        return count * float(0.5 ** ((self._uses - at) / self._half_life))


@dataclass(slots=True, kw_only=True, eq=False)
class Resident(Generic[N]):
    """A ControlNet in memory."""

    network: N
    users: int = 0  #: sessions that it is in use by


class ModelCache(Generic[N]):
    """The ControlNets of one process. May be called from any thread; loading blocks its caller."""

    def __init__(self, load: Callable[[str], N], room: int, *, patience_s: float = 60.0) -> None:
        """Hold ControlNets of `room` bytes in all; one that is larger is held alone."""
        self._load = load
        self._room = room
        self._patience_s = patience_s  #: for others to leave, where all are in use
        self._held: dict[str, Resident[N]] = {}
        self._loading: set[str] = set()
        self._expected: dict[str, int] = {}  #: bytes of these, those that room was made for
        self._popularity = Popularity()
        self._changed = threading.Condition()

    @property
    def names(self) -> tuple[str, ...]:
        """What is in memory, the popular ones first."""
        with self._changed:
            return tuple(sorted(self._held, key=self._popularity.of, reverse=True))

    def take(self, name: str) -> N:
        """Give a ControlNet, which stays until it is released as often as it was taken.

        Raises: whatever loading raises; EngineError if those in use leave no room for it.
        """
        with self._changed:
            self._popularity.note(name)
            self._changed.wait_for(lambda: name not in self._loading)
            if resident := self._held.get(name):
                resident.users += 1
                return resident.network
            self._loading.add(name)
        try:
            return self._add(name)
        finally:
            with self._changed:
                self._loading.discard(name)
                self._expected.pop(name, None)
                self._changed.notify_all()

    def expect(self, name: str, num_bytes: int) -> None:
        """Make room for a ControlNet that is being loaded: `load` calls it before it takes any.

        Raises: EngineError if those in use leave no room for it.
        """
        with self._changed:
            self._wait_for_room(name, num_bytes)
            self._expected[name] = num_bytes

    def preload(self, sizes: Mapping[str, int]) -> None:
        """Load what fits beside what is there before anybody asks. Units: bytes by name."""
        for name, num_bytes in sizes.items():
            with self._changed:
                fits = self._num_bytes + num_bytes <= self._room
            if fits:
                try:
                    self.take(name)
                except AtelierError as error:  # whoever asks for it is told again
                    log.warning("controlnet_not_loaded", name=name, reason=str(error))
                else:
                    self.release(name)

    def release(self, name: str) -> None:
        """Let a ControlNet go once nobody else uses it and its room is needed."""
        with self._changed:
            self._held[name].users -= 1
            self._changed.notify_all()

    def _add(self, name: str) -> N:
        began = time.monotonic()
        network = self._load(name)
        with self._changed:
            self._expected.pop(name, None)
            self._wait_for_room(name, network.num_bytes)
            self._held[name] = Resident(network=network, users=1)
        log.info("controlnet_loaded", name=name, seconds=round(time.monotonic() - began, 2))
        return network

    def _wait_for_room(self, name: str, num_bytes: int) -> None:
        if not self._changed.wait_for(lambda: self._make_room(num_bytes), self._patience_s):
            raise EngineError(f"ControlNet {name}: those in use leave no room for it")

    def _make_room(self, num_bytes: int) -> bool:
        """Let the least popular go until another fits; say no if those in use are in the way."""
        while self._num_bytes and self._num_bytes + num_bytes > self._room:
            idle = [name for name, held in self._held.items() if not held.users]
            if not idle:
                return False
            self._held.pop(min(idle, key=self._popularity.of)).network.close()
        return True

    @property
    def _num_bytes(self) -> int:
        held = sum(each.network.num_bytes for each in self._held.values())
        return held + sum(self._expected.values())
