"""The router before several cells: it keeps nothing, so any replica answers any request."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

from aiohttp import web

from core.errors import ConfigurationError, RequestRejected
from core.log import get_logger
from router.bodies import BodyHolder
from router.cells import CellsFile
from router.choosing import CellChooser, NoCell
from router.forwarding import CellForwarder
from router.listing import Keeper, anyone
from router.naming import cell_in_path, cells_in_body, is_about_kept, key_of, template_of
from router.pages import merged_answer
from router.problems import problem, refusal
from router.proxy import (
    CELL_HEADER,
    Body,
    CellLost,
    CellUnreachable,
    RouterFull,
    open_session,
)
from router.routes import Way, way_of
from router.watching import LOOK_EVERY_S, CellHealth, CellWatch

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterLimits:
    """What a router takes."""

    body_bytes: int  #: of one request
    requests: int  #: that are answered at a time


class CellRouter:
    """Finds the cell of each request, and passes it on."""

    def __init__(
        self, file: CellsFile, tenants: Mapping[str, str], public_url: str, limits: RouterLimits
    ) -> None:
        """Prepare; `tenants` names those whose keys the settings have, by key."""
        self._file = file
        self._public_url = public_url.rstrip("/")
        self._tenants = tenants
        self._chooser = CellChooser()
        self.bodies = BodyHolder(limits.body_bytes)
        self._limits = limits
        self._in_flight = 0  #: requests that are being answered
        self._watch: CellWatch
        self._cells: CellForwarder

    def app(self) -> web.Application:
        """Build the application; bodies stay as they are packed, and as long as they say."""
        app = web.Application(handler_args={"auto_decompress": False})
        app.cleanup_ctx.append(self._run)
        app.router.add_get("/healthz", self.healthz)
        app.router.add_get("/readyz", self.readyz)
        app.router.add_route("*", "/{path:.*}", self.route)
        return app

    async def healthz(self, request: web.Request) -> web.Response:
        """Answer without asking anybody."""
        return web.json_response({"status": "ok"})

    async def readyz(self, request: web.Request) -> web.Response:
        """Answer 200 while a cell takes new jobs; say what is seen of each."""
        cells = {name: self._chooser.health(name).value for name in self._file.cells}
        is_ready = CellHealth.READY.value in cells.values()
        body = {"status": "ready" if is_ready else "no cell is ready", "cells": cells}
        return web.json_response(body, status=200 if is_ready else 503)

    async def route(self, request: web.Request) -> web.StreamResponse:
        """Pass a request on to its cell, or say why not."""
        if self._in_flight >= self._limits.requests:
            return _full(request, f"it answers {self._in_flight} requests")
        self._in_flight += 1
        try:
            return await self._answer(request)
        finally:
            self._in_flight -= 1

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._route(request)
        except RequestRejected as error:
            return refusal(request.path, error)
        except NoCell as error:
            return problem(request.path, 503, "no-cell", "No cell can take this now", str(error))
        except CellUnreachable as error:
            detail = f"{error}: what it has accepted comes back with it"
            return problem(request.path, 503, "cell-away", "Its cell does not answer", detail)
        except CellLost as error:
            detail = f"{error}: it may have been heard"
            return problem(request.path, 503, "cell-lost", "Its cell broke off", detail)
        except RouterFull as error:
            return _full(request, str(error))

    async def _route(self, request: web.Request) -> web.StreamResponse:
        way = way_of(request.method, request.path)
        name = request.headers.get(CELL_HEADER)
        if name is not None and name not in self._file.cells:
            return problem(request.path, 404, "no-such-cell", "No such cell", name[:40])
        if name is None and way is Way.NAMED:
            detail = f"say in the header {CELL_HEADER} which: {', '.join(self._file.cells)}"
            return problem(request.path, 400, "which-cell", "This is about one cell", detail)
        if way is Way.EVERYWHERE:  # which may have a tenant's name in its path
            name = None
        elif way is not Way.NAMED:
            name = self._of_path(request.path) or name
        if name is not None:
            return await self._cells.send(request, name, _streamed(request))
        return await self._by_tenant(request, way)

    async def _by_tenant(self, request: web.Request, way: Way) -> web.StreamResponse:
        key = key_of(request.headers)
        tenant = self._tenants.get(key, key)
        if way is Way.JOB:
            return await self._submit(request, tenant)
        if way is Way.MERGED:
            return await self._merge(request)
        if way is Way.EVERYWHERE:
            return await self._tell_all(request, tenant)
        home = self._chooser.home(tenant)
        return await self._cells.send(request, home, _streamed(request))

    def _of_path(self, path: str) -> str | None:
        """Name the cell of what a path names; ids without a cell are the first one's.

        What tenants keep is its keeper's, and all of a closed cell.
        """
        name = cell_in_path(path)
        if name == "":
            name = self._file.first
        if name is None or (name in self._file.cells and not is_about_kept(path)):
            return name
        return self._file.keepers.get(name)

    async def _submit(self, request: web.Request, tenant: str) -> web.StreamResponse:
        """Send a new job to the cell of what it names, else to the first that can be reached."""
        async with self.bodies.read(request) as body:
            if named := cells_in_body(body.data, self._file.keepers):
                name = self._file.keepers[named[0]]
                return await self._cells.send(request, name, body.given_away())
            key = request.headers.get("Idempotency-Key")
            stays_with = template_of(body.data) or key or uuid4().hex
            for name in self._chooser.for_job(tenant, stays_with, time.monotonic()):
                with suppress(CellUnreachable):
                    return await self._cells.send(request, name, body.given_away())
        raise NoCell("no cell answers")

    async def _merge(self, request: web.Request) -> web.StreamResponse:
        asked = list(self._file.cells)
        keeper: Keeper = anyone
        if is_about_kept(request.path):  # whose heir has it shows it no more
            asked = [name for name in asked if self._file.keepers[name] == name]
            keeper = self._file.keeper_of_id
        answers = await self._cells.fetch(request, asked)
        if not any(answers.values()):
            raise NoCell("no cell answers")
        return merged_answer(request, answers, keeper, self._public_url)

    async def _tell_all(self, request: web.Request, tenant: str) -> web.StreamResponse:
        """Say the same to every cell; if one cannot hear it, the client has to say it again."""
        home = self._chooser.home(tenant)
        async with self.bodies.read(request) as body:
            answers = await self._cells.fetch(request, list(self._file.cells), body.parts)
        if deaf := [name for name, answer in answers.items() if answer is None]:
            detail = f"{', '.join(deaf)} did not answer: send it again when all cells are back"
            return problem(request.path, 503, "cell-away", "Not every cell heard it", detail)
        heard = [answer for answer in answers.values() if answer is not None]
        refused = [answer for answer in heard if answer[0] >= 400]
        status, content, kind = refused[0] if refused else answers[home] or heard[0]
        return web.Response(status=status, body=content, headers={"Content-Type": kind})

    async def _run(self, app: web.Application) -> AsyncIterator[None]:
        async with open_session() as http:
            self._watch = CellWatch(http, lambda: self._file.cells)
            self._cells = CellForwarder(http, self._file, self._chooser, self._watch)
            await self._look()
            task = asyncio.create_task(self._follow())
            yield
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        """Follow the file and the cells, until cancelled."""
        complaint = ""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                if self._file.refresh():
                    log.info("cells_read", cells=list(self._file.cells))
                complaint = ""
            except ConfigurationError as error:
                if str(error) != complaint:
                    log.warning("cells_not_read", error=str(error))
                complaint = str(error)
            await self._look()

    async def _look(self) -> None:
        await self._watch.look()
        self._chooser.learn(self._file.cells, self._watch.seen, time.monotonic())


def _full(request: web.Request, reason: str) -> web.Response:
    title = "This router holds as much as it can"
    return problem(request.path, 503, "router-full", title, f"{reason}: ask again")


def _streamed(request: web.Request) -> Body:
    """Give a body as it comes; requests without one have none."""
    return request.content.iter_any() if request.can_read_body else None
