"""Kinds of faults in turn, each under several seeds, on as few services as possible."""

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.nemesis.kind import Kind
from bench.nemesis.kinds.table import can
from bench.nemesis.service import Service, Setup, running
from bench.nemesis.trial import Result, learn, run

Trial = tuple[Kind, int]  #: a kind of fault, and a seed


def run_all(
    kinds: Iterable[Kind], seeds: Iterable[int], tell: Callable[[str], object]
) -> Iterator[Result]:
    """Run every trial; a service is used again as long as nothing goes wrong with it."""
    trials = [(kind, seed) for seed in seeds for kind in kinds]
    for setup in Setup:
        left = deque(trial for trial in trials if trial[0].setup is setup)
        while left:
            with (
                tempfile.TemporaryDirectory(prefix="atelier-faults-") as folder,
                running(Path(folder), setup) as service,
            ):
                yield from asyncio.run(_run_some(service, left, tell))


async def _run_some(
    service: Service, left: deque[Trial], tell: Callable[[str], object]
) -> list[Result]:
    """Run trials until something goes wrong: the next begin on a service of their own."""
    await service.until_ready()
    await learn(service)
    found = list[Result]()
    while left and not any(each.violations for each in found):
        kind, seed = left.popleft()
        if not can(kind, service):
            tell(f"{kind.name}: left out, this machine has no {kind.needs}")
            continue
        found.append(await run(service, kind, seed))
        wrong = len(found[-1].violations)
        tell(f"{kind.name}, seed {seed}: {found[-1].seconds:.0f} s, {wrong} violations")
    await service.redis.aclose()
    return found
