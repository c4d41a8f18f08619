"""Run one part of a GPU run as a process that tells its figures as it finds them, and ends."""

import importlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

from bench.parts.report import Figure

OVER = "its time was over"
#: What those that are preloaded import at their first use.
LAZY = (
    "torch._dynamo",
    "diffusers.pipelines.stable_diffusion_xl",
    "diffusers.pipelines.controlnet",
)
END = ""  #: the name that comes last, with what has failed

#: Takes the name of a figure, or nothing for a note, and either of them.
Tell = Callable[[str | None, Figure | str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is measured together, in a process of its own."""

    title: str
    module: str  #: has a `measure(part, tell, is_dry, seconds)`
    budget_s: float
    figures: Sequence[str]  #: names of all that it tells
    compiles: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a part has told, and why it told no more."""

    part: Part
    figures: dict[str, Figure] = field(default_factory=dict)  #: the latest of each name
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    why_not: str | None = None  #: why figures may be missing

    def missing(self) -> list[str]:
        """Name the figures that it was to tell and has not."""
        return [name for name in self.part.figures if name not in self.figures]


def run(part: Part, limit_s: float, *, is_dry: bool) -> Outcome:
    """Run a part to its end, or for so long: what it told until then is kept."""
    outcome = Outcome(part=part)
    if limit_s < 1:
        outcome.why_not = "the time of the whole run was over"
        return outcome
    # A fork has imported everything, but cannot use CUDA if anything before it has.
    context = get_context("forkserver") if is_dry else get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    begun = time.monotonic()
    process = context.Process(target=_measure, args=(part, theirs, is_dry, limit_s))
    process.start()
    theirs.close()
    outcome.why_not = _listen(ours, outcome, begun + limit_s) or None
    _end(process.pid)
    process.join()
    outcome.seconds = time.monotonic() - begun
    return outcome


def preload(parts: Sequence[Part]) -> None:
    """Import what parts import once, for all dry runs of this process."""
    get_context("forkserver").set_forkserver_preload([*LAZY, *(p.module for p in parts)])


def _measure(part: Part, pipe: Connection, is_dry: bool, seconds: float) -> None:
    os.setsid()  # so that what it starts ends with it

    def tell(name: str | None, found: Figure | str) -> None:
        pipe.send((name, found))

    failed = ""
    try:
        importlib.import_module(part.module).measure(part, tell, is_dry, seconds)
    except Exception as error:
        said = str(error).strip().splitlines() or [""]
        failed = f"{type(error).__name__}: {said[0][:300]}"
        raise
    finally:
        tell(END, failed)  # not by closing: what it has started may have the pipe too


def _listen(pipe: Connection, outcome: Outcome, until: float) -> str:
    """Take what a part tells, to its end or so long; give the reason if that is not all."""
    while pipe.poll(max(0.0, until - time.monotonic())):
        try:
            name, found = pipe.recv()
        except EOFError:
            return "it was killed"
        if name == END:
            return str(found)
        if name is None:
            outcome.notes.append(found)
        else:
            outcome.figures[name] = found
    return OVER


def _end(pid: int | None) -> None:
    """End a process and all that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if pid and os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
