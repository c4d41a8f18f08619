"""The upkeep process: `python -m run.upkeep`. Recovery and cleanup; one leader a matter, by lease.

Requeues jobs that lost their worker, republishes lost messages, expires late jobs, reroutes jobs
that no worker serves, delivers webhooks, has a sample of finished images scored, notes how the
service does, moves jobs that ended a while ago to the archive, deletes old jobs and their images.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
from redis.asyncio import Redis

from core.errors import ConfigurationError
from core.log import configure, end
from core.settings import Settings, get_settings
from run.chores import chores_by_matter
from storage.archive.archive import Archive
from storage.archive.open import open_archive
from storage.boards.fleet import Leadership
from storage.boards.schema import announcing
from storage.redis.connect import connect, connect_sync
from tasks.bells import Bells
from tasks.upkeep.chores import ChoreRunner
from tasks.upkeep.relay import BellRelay

LEAD_S = 10.0  #: a leader silent for so long is replaced


async def serve(settings: Settings) -> None:
    """Keep house until SIGTERM or SIGINT."""
    redis = connect(settings.redis_url)
    with ringing(settings) as bells, closing(open_archive(settings)) as archive:
        await keep(settings, redis, bells, archive)
    await redis.aclose()


@contextmanager
def ringing(settings: Settings) -> Iterator[Bells | None]:
    """Carry bells to RabbitMQ, if workers are rung over that; whoever leads."""
    if not settings.broker_url:
        yield None
        return
    client, bells = connect_sync(settings.redis_url), Bells(settings.broker_url)
    relay = BellRelay(client, bells)
    relay.start()
    try:
        yield bells
    finally:
        relay.stop()
        bells.close()
        client.close()


async def keep(settings: Settings, redis: Redis, bells: Bells | None, archive: Archive) -> None:
    """Do the chores until SIGTERM or SIGINT."""
    async with httpx.AsyncClient(
        base_url=settings.scheduler_url, timeout=5.0, trust_env=False
    ) as scheduler:
        me = f"{socket.gethostname()}:{os.getpid()}"
        matters = chores_by_matter(settings, redis, scheduler, bells, archive)
        runners = [
            ChoreRunner(Leadership(redis, matter, me, LEAD_S), chores)
            for matter, chores in matters.items()
        ]
        loop = asyncio.get_running_loop()

        def stop() -> None:
            for runner in runners:
                runner.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        await asyncio.gather(*(runner.run() for runner in runners))


def main() -> None:
    """Run upkeep with the settings of this process's environment."""
    try:
        settings = get_settings()
        configure(settings.log_level, is_json=settings.log_json, process="upkeep")
        with announcing(settings, "upkeep"):
            asyncio.run(serve(settings))
    except ConfigurationError as error:
        end("upkeep", error)


if __name__ == "__main__":
    main()
