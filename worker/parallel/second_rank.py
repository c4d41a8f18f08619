"""Start and monitor the second rank of a worker; replace it when it dies."""

import multiprocessing
import os
import threading
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from core.errors import ConfigurationError
from core.log import get_logger
from core.telemetry import metrics
from worker.diffusion.device import parse_device
from worker.parallel.link import Link, LinkLost
from worker.parallel.rank_process import RankSpec, serve

log = get_logger(__name__)

#: How long to wait before a second rank is started again: doubled each time it does not come.
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
#: How long a second rank may take to load its model, and to end by itself.
LOADING_S, ENDING_S = 600.0, 5.0

#: Torch is imported once: a second rank is there again as soon as it has loaded its model.
_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload([serve.__module__])


@dataclass(frozen=True, slots=True, eq=False)
class _Rank:
    process: BaseProcess
    link: Link


class SecondRank:
    """The second rank of one resident model, as the first one sees it."""

    def __init__(self, spec: RankSpec, first_device: str) -> None:
        """Prepare. Raises: ConfigurationError if there is no such device, or not of this type."""
        own = parse_device(first_device)
        other = parse_device(spec.device, "ATELIER_SECOND_DEVICE")
        if own.type != other.type:
            raise ConfigurationError(
                f"ATELIER_SECOND_DEVICE: {spec.device!r} is not of the type of {first_device!r}"
            )
        self._spec = spec
        self._own_device = own
        self._rank: _Rank | None = None
        self._process: BaseProcess | None = None  #: on its way, or there
        self._has_tried = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="second rank", daemon=True)

    @property
    def link(self) -> Link | None:
        """The way to the second rank; None while there is none."""
        rank = self._rank
        return rank.link if rank is not None else None

    @property
    def pid(self) -> int | None:
        """Name the process, ready or on its way."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the second rank, and return once it is ready or has failed to be."""
        self._thread.start()
        self._has_tried.wait()

    def lose(self, link: Link, reason: str) -> None:
        """Go on without the second rank that is at the other end, until the next one is ready."""
        rank = self._rank
        if rank is None or rank.link is not link:
            return
        log.warning("second_rank_lost", model=self._spec.model.name, reason=reason)
        self._rank = None
        rank.process.kill()  # it may be stuck; its thread sees it die and starts another

    def close(self) -> None:
        """End the second rank, for good. May be called twice."""
        self._is_closed.set()
        rank, self._rank = self._rank, None
        if rank is None:
            self._kill()
        else:
            rank.link.close()
        self._thread.join(ENDING_S)
        self._kill()
        self._thread.join()

    def _keep(self) -> None:
        """Start second ranks, one after another; they meet us in memory that has no name."""
        pause_s = FIRST_PAUSE_S
        while not self._is_closed.is_set():
            with os.fdopen(os.memfd_create("ranks"), "w+b") as meeting:
                has_lived = self._live(Path(f"/proc/{os.getpid()}/fd/{meeting.fileno()}"))
            if has_lived:
                pause_s = FIRST_PAUSE_S
            else:
                self._is_closed.wait(pause_s)
                pause_s = min(2 * pause_s, LAST_PAUSE_S)
        metrics.ranks.remove(self._spec.model.name)

    def _live(self, meeting: Path) -> bool:
        """Have one second rank until it dies, and tell whether it was ever ready."""
        name = self._spec.model.name
        ranks = metrics.ranks.labels(name)
        try:
            rank = self._open(meeting)
        except (LinkLost, EOFError, OSError) as error:
            self._kill()
            log.warning("second_rank_not_started", model=name, reason=str(error))
            return False
        finally:
            ranks.set(1 if self._rank is None else 2)
            self._has_tried.set()
        log.info("second_rank_ready", model=name, device=self._spec.device)
        rank.process.join()
        self._rank = None
        ranks.set(1)
        if not self._is_closed.is_set():
            metrics.ranks_lost.inc()
            log.warning("second_rank_died", model=name, exit_status=rank.process.exitcode)
        return True

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _open(self, meeting: Path) -> _Rank:
        """Start a process, and meet it once it holds the model."""
        ours, theirs = _forkserver.Pipe()
        process = _forkserver.Process(
            target=serve, args=(theirs, self._spec, meeting), name="second rank", daemon=True
        )
        process.start()
        theirs.close()
        self._process = process
        if self._is_closed.is_set():
            process.kill()
        if not ours.poll(LOADING_S):
            raise LinkLost(f"it has not loaded its model in {LOADING_S:.0f} s")
        ours.recv()  # it is ready, or has died
        self._rank = _Rank(process, Link.open(ours, meeting, 0, self._own_device))
        return self._rank
