"""Send a live api everything that one client might send against the others, and see who feels it.

Everything is real: the api, a Redis-protocol server and the scheduler, each a process of its own;
no worker. One client after the other sends what `bench/hostility/` lists, from another address
than the bystander, a process that asks `/healthz` every 20 ms. A probe that was late counts as all
those that it kept from being sent.

    python -m bench.hostile --quick
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from bench.hostility.bystander import read_probes, standing_by
from bench.hostility.client import send_all
from bench.hostility.input import Input, Known
from bench.hostility.inputs.all import INPUTS
from bench.hostility.outcome import Outcome, echo_of
from bench.hostility.service import Memory, Running, allow_files, running
from bench.parts.report import Figure, at_least, at_most, finish, machine, percentile, plain

#: Connections of this process.
MAX_FILES = 16_384
#: Bytes of an input in which the words of its refusal are looked for.
MOST_COMPARED = 2 * 2**20
#: What one input may cost, ten thousand connections at once included.
MOST_GROWN_MIB = 300


async def attack(port: int, known: Known, sent: Input) -> Outcome:
    """Send one input, as often as it says."""
    pieces = [list(sent.pieces(known)) for _ in range(min(sent.count, 1))] * sent.count
    began = time.monotonic()
    how = {"pause_s": sent.pause_s} | ({} if sent.hold_s is None else {"hold_s": sent.hold_s})
    answers = await send_all(port, pieces, addresses=sent.addresses, **how)
    ended = time.monotonic()
    echoed = echo_of(b"".join(pieces[0])[:MOST_COMPARED], answers)
    return Outcome(sent=sent, answers=answers, began=began, ended=ended, echoed=echoed)


def run_all(
    service: Running, memory: Memory, inputs: Sequence[Input], *, is_json: bool
) -> list[Outcome]:
    """Send one input after the other."""
    outcomes = []
    for sent in inputs:
        before_mib = memory.begin()
        outcome = asyncio.run(attack(service.api.port, service.known, sent))
        outcome = replace(outcome, grown_mib=memory.most() - before_mib)
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
        "inputs": at_least(len(outcomes), 300, ""),
        "answers of 500 and more": at_most(sum(each.is_failed for each in outcomes), 0, "inputs"),
        "taken, refused without a reason or not answered": at_most(
            sum(each.is_unnamed for each in outcomes), 0, "inputs"
        ),
        "repeated by a refusal, most": at_most(
            max(each.echoed for each in outcomes), 1000, "bytes"
        ),
        "/healthz of a bystander, p50": plain(percentile(took_ms, 0.5), "ms"),
        "/healthz of a bystander, p99": at_most(percentile(took_ms, 0.99), 100, "ms"),
        "/healthz of a bystander, worst": at_most(max(took_ms), 500, "ms"),
        "memory of the api and its processes, peak": at_most(mib, 1024, "MiB"),
        "memory grown by one input, most": at_most(
            max(each.grown_mib for each in outcomes), MOST_GROWN_MIB, "MiB"
        ),
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


def loudest_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Say whose refusals repeat most of what was sent."""
    loud = sorted(outcomes, key=lambda each: -each.echoed)
    return [f"{each.echoed:6} bytes  {each.sent.name}" for each in loud[:5]]


def greediest_of(outcomes: Sequence[Outcome]) -> list[str]:
    """Say which inputs took most memory."""
    greedy = sorted(outcomes, key=lambda each: -each.grown_mib)
    return [f"{each.grown_mib:6.0f} MiB  {each.sent.name}" for each in greedy[:10]]


def table_of(outcomes: Sequence[Outcome], probes: Sequence[tuple[float, float]]) -> Table:
    """Count the inputs of each kind, and say how late the bystander was meanwhile."""
    table = Table("kind", "inputs", "statuses", "/healthz at worst, ms", "repeated at most, bytes")
    for kind in dict.fromkeys(each.sent.kind for each in outcomes):
        own = [each for each in outcomes if each.sent.kind == kind]
        statuses = sorted({status for each in own for status in each.statuses.split()})
        felt = max(
            (took for at, took in probes if any(e.began <= at <= e.ended for e in own)), default=0.0
        )
        echoed = max(each.echoed for each in own)
        table.add_row(kind, str(len(own)), " ".join(statuses), f"{felt * 1e3:.0f}", str(echoed))
    return table


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
            outcomes = run_all(service, memory, inputs, is_json=as_json)
        probes = read_probes(seen)
        figures = figures_of(outcomes, probes, service, memory.stop())
    if not as_json:
        typer.echo("felt most:\n" + "\n".join(worst_of(outcomes, probes)))
        typer.echo("repeated most:\n" + "\n".join(loudest_of(outcomes)))
        typer.echo("grew most:\n" + "\n".join(greediest_of(outcomes)))
        Console().print(table_of(outcomes, probes))
    raise SystemExit(finish("hostile", figures, where=machine(), is_json=as_json))


if __name__ == "__main__":
    typer.run(main)
