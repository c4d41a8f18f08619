"""What a kind of fault is: its name, what does it, and how soon the service must be well again."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from bench.nemesis.client import Client
from bench.nemesis.service import LEASE_S, Service, Setup


@dataclass(slots=True, kw_only=True)
class Scene:
    """What a fault has to work with."""

    service: Service
    client: Client
    draw: Random
    over_at: float = 0.0  #: when the fault was over; 0: when `do` returns

    def is_over(self) -> None:
        """Count recovery from here, whatever is still to be done."""
        self.over_at = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault."""

    name: str
    do: Callable[[Scene], Awaitable[object]]  #: returns when it is over
    recovers_s: float  #: seconds after which all that was accepted meanwhile must have ended
    setup: Setup = Setup.PLAIN
    may: frozenset[str] = frozenset()  #: violations that docs tell of, as `checker.WORDS`
    needs: str = ""  #: what a machine must have: a disk of `Service.disks`, or `faketime`


#: Bars: a lease and a second; a store that is back; and what the longest job takes after that.
JOB_S = 1.0
WORKER_S, STORE_S, FAILOVER_S = LEASE_S + 1.0 + JOB_S, 5.0 + JOB_S, 15.0 + JOB_S
#: Seconds that a process takes to start, here and under load.
START_S = 12.0
