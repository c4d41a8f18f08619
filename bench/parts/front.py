"""Start processes of the front for benches, and report workers to them that do not exist."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from core.boards.fleet import Worker
from core.placement import queue_of
from storage.boards.fleet import Reporter
from storage.redis.connect import connect_sync
from tests.servers import Server


def service(module: str, port: int, log: Path, settings: dict[str, str]) -> Server:
    """Start a service of ours in a process of its own."""
    words = [f"{name}={value}" for name, value in settings.items()]
    return Server(
        command=["env", *words, sys.executable, "-m", module],
        port=port,
        url=f"http://127.0.0.1:{port}",
        log=log,
        is_ready=is_alive,
    ).start()


def is_alive(port: int) -> bool:
    """Tell whether a service answers."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=2.0).is_success
    except httpx.HTTPError:
        return False


@contextmanager
def reporting(redis_url: str, models: Sequence[str]) -> Iterator[None]:
    """Stand in for workers: report one a model, so that there is a plan. None makes a job."""
    client, is_over = connect_sync(redis_url), threading.Event()

    def run() -> None:
        while not is_over.is_set():
            for name in models:
                Reporter(client).report(_worker(name))
            is_over.wait(0.5)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        client.close()


def _worker(model: str) -> Worker:
    return Worker(
        name=f"{model}@bench",
        device_type="none",
        models=(model,),
        queues=(queue_of(model),),
        memory_gib=16.0,
    )
