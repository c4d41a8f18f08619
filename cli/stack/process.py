"""Start, restart and stop one child process of the stack."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import Unavailable

TETHER = Path(__file__).with_name("parent_death.py")

#: Where `python -m` finds the project's packages, wherever the command was typed.
ROOT = Path(__file__).parents[2]

#: A log that has grown beyond this is set aside when its program starts.
MAX_LOG_BYTES = 16 * 2**20

#: Seconds between two looks at a program that is not ready yet.
LOOK_S = 0.1

#: Looks at a program that has not answered are made until there were so many in a row.
MOST_FAILURES = 6

Probe = Callable[[], Awaitable[bool]]
#: As a probe, but None: nobody can tell now, perhaps because another program does not answer.
Health = Callable[[], Awaitable[bool | None]]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """One program: how it is started, how it shows that it serves, how long it may take to stop."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)  #: beside the environment of this process
    is_ready: Health | None = None  #: None: as soon as it runs
    start_s: float = 60.0  #: seconds until it must be ready
    is_healthy: Health | None = None  #: looked at while it runs; None: it is as long as it runs
    check_s: float = 5.0  #: seconds between two such looks
    stop_s: float = 10.0  #: seconds between SIGTERM and SIGKILL


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next start: doubling, and short again after a long life."""

    first_s: float = 0.5
    most_s: float = 30.0
    healthy_s: float = 60.0  #: a program that lived so long is forgiven
    _next_s: float = 0.0

    def after(self, lived_s: float) -> float:
        """Tell how long to wait after a life of `lived_s` seconds."""
        if lived_s >= self.healthy_s or not self._next_s:
            self._next_s = self.first_s
        wait_s, self._next_s = self._next_s, min(self.most_s, 2 * self._next_s)
        return wait_s


def kill_group(pid: int) -> None:
    """Kill a program and whatever it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


class SupervisedProcess:
    """One service's process. It is started again whenever it dies, until it is stopped."""

    def __init__(self, service: ServiceSpec, log: Path, tell: Tell, backoff: Backoff) -> None:
        self.service = service
        self.log = log
        self.restarts = 0
        self._tell = tell
        self._backoff = backoff
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []  #: that keep it alive and look at its health
        self._stopping = asyncio.Event()
        self._spawning = asyncio.Lock()
        self._started_at = 0.0

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    async def start(self) -> None:
        """Start the program once; `wait_ready` follows."""
        await self._spawn()

    async def wait_ready(self) -> None:
        """Wait until the program serves; from then on it is kept alive.

        Raises:
            Unavailable: it ended or was not ready in time; the message has the end of its log.
        """
        service = self.service
        deadline = time.monotonic() + service.start_s
        while not await self._is_ready():
            if time.monotonic() > deadline:
                late = f"{service.name} was not ready within {service.start_s:.0f} s."
                raise Unavailable(f"{late}\n{self._log_end()}")
            await asyncio.sleep(LOOK_S)
        self._tasks = [asyncio.create_task(self._keep()), asyncio.create_task(self._watch())]

    async def _is_ready(self) -> bool:
        """Look once; what answers while our own program is gone is somebody else's."""
        is_ready = self.service.is_ready is None or await self.service.is_ready()
        if self.pid is None:
            raise self._ended()
        return bool(is_ready)

    def check_first_life(self) -> None:
        """Look for a program that nobody can ask, once the others have started.

        Raises:
            Unavailable: it has ended meanwhile.
        """
        if self.service.is_ready is None and (self.restarts or self.pid is None):
            raise self._ended()

    async def stop(self) -> None:
        """Ask the program to end, wait, then kill it and whatever it left behind."""
        self._stopping.set()
        async with self._spawning:
            process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await self._wait_or_kill(process)
        await asyncio.gather(*self._tasks)

    def kill(self) -> None:
        """Kill the program and whatever it started, now."""
        if self.pid is not None:
            kill_group(self.pid)

    async def _wait_or_kill(self, process: asyncio.subprocess.Process) -> None:
        try:
            await asyncio.wait_for(process.wait(), self.service.stop_s)
        except TimeoutError:
            self._tell(f"{self.service.name} did not stop in {self.service.stop_s:.0f} s: killed")
        finally:
            kill_group(process.pid)
        await process.wait()

    async def _spawn(self) -> None:
        self._started_at = time.monotonic()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._set_log_aside()
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(TETHER), str(os.getpid())),
                *self.service.command,
                cwd=ROOT,
                env={**os.environ, **self.service.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _set_log_aside(self) -> None:
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))

    async def _keep(self) -> None:
        while self._process:
            code = await self._process.wait()
            if self._stopping.is_set():
                return
            kill_group(self._process.pid)
            await self._start_again(f"ended with {code}")

    async def _start_again(self, why: str) -> None:
        """Start the program after a while; one that cannot even be started has had its life."""
        while not self._stopping.is_set():
            wait_s = self._backoff.after(time.monotonic() - self._started_at)
            self._tell(f"{self.service.name} {why}; again in {wait_s:.1f} s")
            try:
                await self._start_after(wait_s)
                return
            except OSError as error:  # no space for its log, no memory, no process
                why = f"cannot be started: {error}"

    async def _watch(self) -> None:
        """Kill the program when it has been unhealthy for long; it is started again then.

        A program that was started again counts from its first healthy look on.
        """
        seen, is_known, failures = self.pid, self.service.is_ready is not None, 0
        while self.service.is_healthy and not await self._is_stopping(self.service.check_s):
            pid, is_healthy = self.pid, await self.service.is_healthy()
            if pid != seen:
                seen, is_known, failures = pid, False, 0
            if is_healthy:
                is_known, failures = True, 0
            elif is_healthy is False and is_known and pid is not None:
                failures += 1
            if failures == MOST_FAILURES and pid == self.pid and pid is not None:
                self._tell(f"{self.service.name} did not answer {failures} times in a row: killed")
                kill_group(pid)

    async def _is_stopping(self, within_s: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), within_s)
        return self._stopping.is_set()

    async def _start_after(self, wait_s: float) -> None:
        await self._is_stopping(wait_s)
        async with self._spawning:
            if not self._stopping.is_set():
                await self._spawn()
                self.restarts += 1

    def _ended(self) -> Unavailable:
        return Unavailable(f"{self.service.name} ended at its start.\n{self._log_end()}")

    def _log_end(self, lines: int = 15) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        end = "\n".join(f"  {line}" for line in text.splitlines()[-lines:])
        return f"The end of {self.log}:\n{end}" if end else f"{self.log} is empty."
