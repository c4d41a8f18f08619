"""The router before several cells: `python -m run.router`."""

import asyncio
import sys

from aiohttp import web

from core.errors import ConfigurationError
from core.log import configure
from core.settings import Settings, get_settings
from router.app import CellRouter, RouterLimits
from router.cells import CellsFile
from run.open_files import allow_files

#: Seconds that a stopping router gives the requests it has.
DRAIN_S = 10.0
#: Seconds an idle connection stays open: longer than proxies keep theirs, so that they close first.
KEEP_ALIVE_S = 75.0
#: Requests that are answered at a time at most, long polls and streams among them.
MAX_REQUESTS = 10_000
#: Open files of a request, to its client and to its cell; others, such as of idle connections.
FILES_EACH, OTHER_FILES = 2, 1000


def open_router(settings: Settings, max_requests: int) -> web.Application:
    """Build the application.

    Raises:
        ConfigurationError: there is no file of cells, or it cannot be.
    """
    if settings.cells_file is None:
        raise ConfigurationError("ATELIER_CELLS_FILE: name the file of cells (docs/cells.md)")
    file = CellsFile(settings.cells_file)
    limits = RouterLimits(body_bytes=settings.max_body_bytes, requests=max_requests)
    return CellRouter(file, settings.api_keys, settings.public_url, limits).app()


def max_requests() -> int:
    """Let this process open the files of all requests; say of how many, where it may not."""
    files = allow_files(FILES_EACH * MAX_REQUESTS + OTHER_FILES)
    others = min(OTHER_FILES, files // 2)
    return min(MAX_REQUESTS, (files - others) // FILES_EACH)


def main() -> None:
    """Serve until told to stop."""
    try:
        settings = get_settings()
        configure(settings.log_level, is_json=settings.log_json)
        app = open_router(settings, max_requests())
    except ConfigurationError as error:
        sys.exit(f"router: {error}")
    web.run_app(
        app,
        host=settings.router_host,
        port=settings.router_port,
        print=None,
        access_log=None,
        shutdown_timeout=DRAIN_S,
        keepalive_timeout=KEEP_ALIVE_S,
        handler_cancellation=True,
        loop=asyncio.new_event_loop(),
    )


if __name__ == "__main__":
    main()
