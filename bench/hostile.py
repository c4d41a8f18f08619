"""Send a live api everything that one client might send against the others, and see who feels it.

Everything is real: the api, a Redis-protocol server and the scheduler, each a process of its own;
no worker. One client after the other sends what `bench/hostility/` lists, from another address
than the bystander, a process that asks `/healthz` every 20 ms. A probe that was late counts as all
those that it kept from being sent.

    python -m bench.hostile --quick
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from bench.hostility import bystander
from bench.hostility.bodies import BODIES
from bench.hostility.client import Answer, send_all
from bench.hostility.files import PICTURES, WEIGHTS
from bench.hostility.heads import HEADS
from bench.hostility.input import Input, Known
from bench.hostility.leaving import LEAVING
from bench.hostility.service import Memory, Running, allow_files, running
from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain

INPUTS = (*WEIGHTS, *HEADS, *BODIES, *PICTURES, *LEAVING)
#: Seconds of quiet before the first input and after the last.
QUIET_S = 2.0
#: Connections of this process.
MAX_FILES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one input."""

    sent: Input
    answers: Sequence[Answer]
    began: float  #: monotonic
    ended: float

    @property
    def is_failed(self) -> bool:
        """The api was at fault."""
        return any(each.status >= 500 for each in self.answers)

    @property
    def is_unnamed(self) -> bool:
        """A refusal did not name its limit, or there was no answer where there must be one."""
        return any(not self._is_told(each) for each in self.answers)

    @property
    def statuses(self) -> str:
        """The statuses, each once."""
        return " ".join(sorted({str(each.status or "-") for each in self.answers}))

    def told(self) -> str:
        """Say it in a line, and what was answered if that was wrong."""
        took = self.ended - self.began
        line = f"{self.sent.item} {self.sent.name:44} {self.statuses:12} {took:6.2f} s"
        if not self.is_failed and not self.is_unnamed:
            return line
        wrong = next((each.text for each in self.answers if not self._is_told(each)), "")
        return f"{line} WRONG: {wrong[-300:] or 'no answer'}"

    def _is_told(self, answer: Answer) -> bool:
        if answer.status == 0:
            return self.sent.is_cut
        if answer.status == 429:  # of a service that is full: it says of what
            return "at most" in answer.text or "in all" in answer.text
        return answer.status < 400 or self.sent.says in answer.text


async def attack(port: int, known: Known, sent: Input) -> Outcome:
    """Send one input, as often as it says."""
    pieces = [list(sent.pieces(known)) for _ in range(min(sent.count, 1))] * sent.count
    began = time.monotonic()
    how = {"pause_s": sent.pause_s} | ({} if sent.hold_s is None else {"hold_s": sent.hold_s})
    answers = await send_all(port, pieces, **how)
    return Outcome(sent=sent, answers=answers, began=began, ended=time.monotonic())


@contextmanager
def standing_by(port: int, file: Path) -> Iterator[None]:
    """Have somebody else look after the service meanwhile."""
    command = [sys.executable, "-m", bystander.__name__, str(port), str(file)]
    with subprocess.Popen(command) as process:
        try:
            time.sleep(QUIET_S)
            yield
            time.sleep(QUIET_S)
        finally:
            process.terminate()


def read_probes(file: Path) -> list[tuple[float, float]]:
    """Read when each probe was due and how late its answer was, those not sent in time too."""
    probes = []
    for line in file.read_text().splitlines():
        began, took = map(float, line.split())
        took = min(took, bystander.PATIENCE_S)
        late = [took - at * bystander.EVERY_S for at in range(int(took / bystander.EVERY_S))]
        probes += [(began, each) for each in late or [took]]
    return probes


def run_all(service: Running, inputs: Sequence[Input], *, is_json: bool) -> list[Outcome]:
    """Send one input after the other."""
    outcomes = []
    for sent in inputs:
        outcome = asyncio.run(attack(service.api.port, service.known, sent))
        outcomes.append(outcome)
        if not is_json:
            typer.echo(outcome.told())
    return outcomes


def figures_of(
    outcomes: Sequence[Outcome], probes: Sequence[tuple[float, float]], service: Running, mib: float
) -> dict[str, Figure]:
    """Put what was seen beside its bars."""
    took_ms = [took * 1e3 for _, took in probes]
    log = service.log.read_text(errors="replace")
    longest = max(len(line) for line in log.splitlines())
    return {
        "inputs": at_least(len(outcomes), 60, ""),
        "answers of 500 and more": at_most(sum(each.is_failed for each in outcomes), 0, "inputs"),
        "refusals that name no limit": at_most(
            sum(each.is_unnamed for each in outcomes), 0, "inputs"
        ),
        "/healthz of a bystander, p50": plain(percentile(took_ms, 0.5), "ms"),
        "/healthz of a bystander, p99": at_most(percentile(took_ms, 0.99), 100, "ms"),
        "/healthz of a bystander, worst": at_most(max(took_ms), 500, "ms"),
        "memory of the api and its processes, peak": at_most(mib, 1024, "MiB"),
        "tracebacks in the log": at_most(log.count("Traceback"), 0, ""),
        "control characters in the log": at_most(
            sum(not each.isprintable() for each in log.replace("\n", "")), 0, ""
        ),
        "longest line of the log": at_most(longest, 1000, "characters"),
        "recordings that wait": at_most(service.recordings, 4, "jobs"),
    }


def worst_of(outcomes: Sequence[Outcome], probes: Sequence[tuple[float, float]]) -> list[str]:
    """Say which inputs the bystander felt most."""
    felt = [
        (max((took for at, took in probes if e.began <= at <= e.ended), default=0.0), e.sent.name)
        for e in outcomes
    ]
    return [f"{took * 1e3:6.0f} ms  {name}" for took, name in sorted(felt, reverse=True)[:10]]


def main(
    quick: bool = typer.Option(False, help="Without those that take half a minute each."),
    as_json: bool = typer.Option(False, "--json", help="The last line only."),
    only: str = typer.Option("", help="Inputs with this in their names alone."),
    models: Path = typer.Option(Path("zoo/weights"), help="Folder of the models served."),
) -> None:
    """Attack an api. Example: `python -m bench.hostile --quick`."""
    allow_files(MAX_FILES)
    inputs = [each for each in INPUTS if only in each.name and not (quick and each.is_slow)]
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder), models.resolve()) as service,
    ):
        seen, memory = Path(folder) / "probes", Memory(service.api)
        with standing_by(service.api.port, seen):
            outcomes = run_all(service, inputs, is_json=as_json)
        probes = read_probes(seen)
        figures = figures_of(outcomes, probes, service, memory.stop())
    if not as_json:
        typer.echo("felt most:\n" + "\n".join(worst_of(outcomes, probes)))
    raise SystemExit(finish("hostile", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
