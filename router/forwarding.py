"""Ask cells by their names, of which those that are away are not asked."""

import asyncio
from collections.abc import Callable, Sequence

import aiohttp
from aiohttp import web

from router.cells import CellsFile
from router.choosing import CellChooser
from router.proxy import Body, CellLost, CellUnreachable, ask, pass_back
from router.watching import CellHealth, CellWatch

WholeAnswer = tuple[int, bytes, str]  #: status, body, type of content


class CellForwarder:
    """Sends requests to cells."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        file: CellsFile,
        chooser: CellChooser,
        watch: CellWatch,
    ) -> None:
        self._http = http
        self._file = file
        self._chooser = chooser
        self._watch = watch

    async def send(self, request: web.Request, name: str, body: Body) -> web.StreamResponse:
        """Send a request on, and its answer back as it comes.

        Raises:
            CellUnreachable: the cell has heard nothing of it.
            CellLost: nobody knows what became of it.
        """
        async with await self._ask(request, name, body) as answer:
            return await pass_back(request, answer, name)

    async def fetch(
        self, request: web.Request, names: Sequence[str], body: Callable[[], Body] = lambda: None
    ) -> dict[str, WholeAnswer | None]:
        """Ask several cells at once and read their answers; None: one has none.

        `body` begins the body anew for each.
        """
        found = await asyncio.gather(*(self._fetch(request, name, body()) for name in names))
        return dict(zip(names, found, strict=True))

    async def _fetch(self, request: web.Request, name: str, body: Body) -> WholeAnswer | None:
        try:
            async with await self._ask(request, name, body) as answer:
                return answer.status, await answer.read(), answer.headers.get("Content-Type", "")
        except (CellUnreachable, CellLost, aiohttp.ClientError, TimeoutError):
            return None

    async def _ask(self, request: web.Request, name: str, body: Body) -> aiohttp.ClientResponse:
        if self._chooser.health(name) is CellHealth.AWAY:
            raise CellUnreachable(f"the cell {name} is away")
        try:
            return await ask(self._http, request, self._file.cells[name].url, body)
        except CellUnreachable as error:
            self._watch.note_away(name)
            raise CellUnreachable(f"the cell {name} is away") from error
        except CellLost as error:
            raise CellLost(f"the cell {name} did not answer") from error
