"""Upgrade a service under load from the version before, and take it back: nobody notices.

Claims: each accepted job ends once, with its image; no answer is a 5xx but 503 with `Retry-After`.
Both versions serve beside each other at every step in between, on one store.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis
import typer
from rich.console import Console

from bench.parts.report import Figure, at_least, at_most, finish, machine, plain
from bench.parts.upgrade_load import Client, Seen, load
from bench.parts.versions import ORDER, ROOT, MixedService, NoHistory, check_out, mixed_service
from storage.jobs.integrity import check_integrity

#: A commit of the version before this one; a release moves it.
BEFORE = "ec3574699728f855aa89e0a622792a4243b3f306"
AGAIN_S = 1.0  #: both versions serve side by side for so long after each step


@dataclass(slots=True, kw_only=True)
class Upgrade:
    """What an upgrade and its return came to."""

    seen: Seen
    ended_again: int = 0  #: jobs with more than one end
    contradictions: Sequence[str] = field(default_factory=tuple)  #: of records and indexes
    resumed: int = 0  #: jobs that went on in another process than they began in
    seconds: float = 0.0


async def upgrade(service: MixedService, before: Path, console: Console) -> Upgrade:
    """Start everything of the version before, replace each process by ours, and back."""
    loop = asyncio.get_running_loop()
    for name in reversed(ORDER):
        await asyncio.to_thread(service.start, name, before)
    client, is_over, began = Client(service.api), asyncio.Event(), loop.time()
    asking = asyncio.create_task(load(client, is_over))
    try:
        for names, tree in ((ORDER, ROOT), (tuple(reversed(ORDER)), before)):
            for name in names:
                await asyncio.sleep(AGAIN_S)
                await asyncio.to_thread(service.replace, name, tree)
                console.log(f"{name}: {'this version' if tree == ROOT else 'the one before'}")
    finally:
        is_over.set()
        await asking
        await client.close()
    found = Upgrade(seen=client.seen, seconds=loop.time() - began)
    with redis.Redis.from_url(service.store.url) as store:
        for job_id in client.seen.accepted:
            found.ended_again += int(store.hget(f"job:{job_id}", "finishes") or 0) != 1
        found.contradictions = check_integrity(store, is_quiet=True)
    logs = [service.log_of(name).read_text() for name in ORDER]
    found.resumed = sum(log.count('"event": "job_resumed"') for log in logs)
    return found


def figures(found: Upgrade) -> dict[str, Figure]:
    """Lay out what happened beside what was promised."""
    seen = found.seen
    return {
        "jobs accepted": plain(len(seen.accepted), ""),
        "without their image": at_most(len(seen.lost), 0, ""),
        "ended not once": at_most(found.ended_again, 0, ""),
        "wrong answers": at_most(sum(seen.wrong.values()), 0, ""),
        "contradictions in the store": at_most(len(found.contradictions), 0, ""),
        "images that went on elsewhere": at_least(found.resumed, 1, ""),
        "streams that told the end": plain(seen.streams, ""),
        "503 with Retry-After": plain(seen.unavailable, ""),
        "connections cut": plain(seen.cut, ""),
        "time": plain(found.seconds, "s"),
    }


def main(
    quick: bool = typer.Option(False, help="The same: it has no shorter form."),
    json: bool = typer.Option(False, help="Only the JSON object."),
    before: str = typer.Option(BEFORE, help="The commit to upgrade from and to go back to."),
) -> None:
    """Upgrade under load, and back. Example: `python -m bench.upgrade`."""
    console = Console(stderr=True, quiet=json)
    with tempfile.TemporaryDirectory(prefix="atelier-upgrade-") as folder:
        try:
            tree = check_out(before, Path(folder) / "before")
        except NoHistory as error:  # nothing is claimed where there is nothing to compare with
            console.log(str(error))
            raise SystemExit(finish("upgrade", {}, where=machine(), is_json=json)) from error
        with mixed_service(Path(folder) / "service") as service:
            found = asyncio.run(upgrade(service, tree, console))
    for wrong in (*found.seen.wrong.items(), *found.seen.lost, *found.contradictions):
        console.log(wrong)
    raise SystemExit(finish("upgrade", figures(found), where=machine(), is_json=json))


if __name__ == "__main__":
    typer.run(main)
