"""Readiness probes of the stack's programs; they return a bool and never raise."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress

import httpx
import msgspec

from atelier_client.types.service import Fleet
from cli.stack.ports import HOST
from cli.stack.process import Health, Probe
from storage.redis.keys import leader_key

#: Seconds one look may take.
LOOK_S = 3.0

#: Loopback speaks no TLS, and reading certificates at every look would cost more than the look.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _http(headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """Open a client for this machine: it goes through no proxy that the environment names."""
    return httpx.AsyncClient(verify=NO_TLS, timeout=LOOK_S, headers=headers, trust_env=False)


async def read_fleet(http: httpx.AsyncClient, api: str) -> Fleet:
    """Read the fleet. Raises: httpx.HTTPError, msgspec.DecodeError."""
    answer = (await http.get(f"{api}/v1/fleet")).raise_for_status()
    return msgspec.json.decode(answer.content, type=Fleet)


def answers_http(url: str) -> Probe:
    """Look for a 200 at an address."""

    async def look() -> bool:
        try:
            async with _http() as http:
                return (await http.get(url)).status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    return look


def answers_ping(port: int) -> Probe:
    """Look for a Redis-protocol server that has read its files."""

    async def look() -> bool:
        return await _pongs(port)

    return look


def answers_at_all(port: int) -> Probe:
    """Look for a Redis-protocol server that lives.

    One whose disk is full (-MISCONF) or that reads its files (-LOADING) does: to kill it mends
    neither.
    """

    async def look() -> bool:
        return bool(await _ask(port, "PING"))

    return look


def leads(port: int, matter: str) -> Health:
    """Look whether somebody leads in a matter, in a Redis-protocol server.

    While that takes no writes, nobody can lead in it.
    """

    async def look() -> bool | None:
        if not await _pongs(port):
            return None
        answer = await _ask(port, f"EXISTS {leader_key(matter)}")
        return answer.startswith(b":1") if answer.startswith(b":") else None

    return look


async def _pongs(port: int) -> bool:
    """Look for a Redis-protocol server that can be read and written."""
    return (await _ask(port, "PING")).startswith(b"+PONG")


async def _ask(port: int, command: str) -> bytes:
    """Read the first line of an answer; empty: there is none."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LOOK_S):
            reader, writer = await asyncio.open_connection(HOST, port)
            writer.write(f"{command}\r\n".encode())
            answer = await reader.readline()
            writer.close()
            return answer
    return b""


def reports(api: str, store: int, worker: str, headers: Mapping[str, str]) -> Health:
    """Look whether a worker says that it lives: one that hangs or is stopped does not.

    While the fleet cannot be read, or the store at this port cannot be written, nobody knows.
    """

    async def look() -> bool | None:
        try:
            async with _http(headers) as http:
                fleet = await read_fleet(http, api)
        except (httpx.HTTPError, msgspec.DecodeError):
            return None
        if any(each.name.partition("@")[0] == worker for each in fleet.workers):
            return True
        return False if await _pongs(store) else None

    return look


def takes_jobs(api: str, worker: str, headers: Mapping[str, str]) -> Probe:
    """Look for a worker that reports to a service that is ready: from now on jobs are taken.

    Its model may still be loading: they wait for it. One that can load nothing says so, and is not
    waited for.
    """

    async def look() -> bool:
        try:
            async with _http(headers) as http:
                fleet = await read_fleet(http, api)
                is_ready = (await http.get(f"{api}/readyz")).is_success
        except (httpx.HTTPError, msgspec.DecodeError):
            return False
        found = [w for w in fleet.workers if w.name.partition("@")[0] == worker]
        return any(is_ready or each.failures for each in found)

    return look
