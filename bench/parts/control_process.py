"""A ControlNet worker process with a core of its own, and a rate-limited link to it."""

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import msgspec
import psutil
import torch

from worker.control.offers import Offer
from worker.control.server.load_network import load_network
from worker.control.server.model_cache import ModelCache
from worker.control.server.server import ControlServer

#: Bytes that a relay passes on at a time.
_CHUNK = 2**16

_spawn = multiprocessing.get_context("spawn")


class ControlProcess:
    """Takes every session that it is offered."""

    def __init__(self, folder: Path, cores: Collection[int]) -> None:
        theirs, self._offers = _spawn.Pipe(duplex=False)
        self._process = _spawn.Process(target=_serve, args=(folder, theirs, cores), daemon=True)
        self._process.start()

    @property
    def cpu_s(self) -> float:
        """CPU time that it has used so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)

    def offer(self, offer: Offer) -> None:
        """Hand a session over, by whichever way it says."""
        self._offers.send(offer)

    def close(self) -> None:
        self._offers.send(None)
        self._process.join()


class Taker(Protocol):
    """Whoever takes sessions that are offered."""

    def offer(self, offer: Offer) -> None: ...


class SlowLink:
    """Hands sessions over so that their answers come no faster than a rate."""

    def __init__(self, taker: Taker, bytes_per_s: float) -> None:
        self._taker = taker
        self._rate = bytes_per_s
        self._ports: dict[int, int] = {}  #: of relays, by whom they reach
        self._relays: list[multiprocessing.process.BaseProcess] = []

    def offer(self, offer: Offer) -> None:
        port = int(offer.endpoints[-1].rpartition(":")[2])
        if port not in self._ports:
            self._ports[port] = self._open(port)
        endpoints = (f"tcp://127.0.0.1:{self._ports[port]}",)
        self._taker.offer(msgspec.structs.replace(offer, endpoints=endpoints))

    def close(self) -> None:
        for relay in self._relays:
            relay.kill()
            relay.join()

    def _open(self, port: int) -> int:
        theirs, ours = _spawn.Pipe()
        relay = _spawn.Process(target=_relay, args=(port, self._rate, theirs), daemon=True)
        relay.start()
        self._relays.append(relay)
        own: int = ours.recv()
        return own


@contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Keep this process to some cores for a while."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _serve(folder: Path, offers: Connection, cores: Collection[int]) -> None:
    os.sched_setaffinity(0, cores)
    torch.set_num_threads(1)
    residents = ModelCache(
        lambda name: load_network(folder / name, device="cpu", dtype="float32"), 2**32
    )
    server = ControlServer(residents, max_rows=16)
    server.start()
    while (offer := offers.recv()) is not None:
        threading.Thread(target=server.serve, args=(offer,), daemon=True).start()
    server.close()


def _relay(port: int, rate: float, told: Connection) -> None:
    asyncio.run(_listen(port, rate, told))


async def _listen(port: int, rate: float, told: Connection) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(
            _pass_on(reader, there_writer, rate), _pass_on(there_reader, writer, float("inf"))
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    told.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, rate: float) -> None:
    free_at = 0.0  #: when the next byte may come, monotonic s
    while data := await reader.read(_CHUNK):
        free_at = max(time.monotonic(), free_at) + len(data) / rate
        await asyncio.sleep(max(0.0, free_at - time.monotonic()))
        writer.write(data)
        await writer.drain()
    writer.close()
