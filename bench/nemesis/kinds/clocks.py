"""Clocks that are wrong, by libfaketime: a process lives an hour before or after the others."""

import asyncio
from functools import partial
from pathlib import Path

from bench.nemesis.kind import START_S, WORKER_S, Kind, Scene

AWAY_S = 4.0
LIBRARIES = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
LIBRARY = next(map(str, LIBRARIES), "")


async def shift(scene: Scene, names: tuple[str, ...], by: str) -> None:
    """Restart processes with clocks that are off, and after a while with good ones."""
    wrong = {"LD_PRELOAD": LIBRARY, "FAKETIME": by, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    for name in names:
        await scene.service.restart(name, **wrong)
    await scene.service.until_ready()
    await asyncio.sleep(AWAY_S)
    for name in names:
        await scene.service.restart(name)


_SHIFTS = {
    "a worker an hour ahead": (("w0",), "+1h"),
    "a worker an hour behind": (("w0",), "-1h"),
    "the api an hour ahead": (("api",), "+1h"),
    "the api an hour behind": (("api",), "-1h"),
    "upkeep an hour ahead": (("upkeep",), "+1h"),
    "upkeep an hour behind": (("upkeep",), "-1h"),
    "the scheduler an hour ahead": (("scheduler",), "+1h"),
    "a clock that runs twice as fast": (("w0", "upkeep"), "+0 x2"),
}
KINDS = tuple(
    Kind(
        name=f"clock: {name}",
        do=partial(shift, names=names, by=by),
        recovers_s=START_S + WORKER_S,
        needs="faketime",
    )
    for name, (names, by) in _SHIFTS.items()
)
