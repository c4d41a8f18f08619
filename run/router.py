"""The router before several cells: `python -m run.router`."""

import asyncio
import sys

from aiohttp import web

from core.errors import ConfigurationError
from core.log import configure
from core.settings import Settings, get_settings
from router.app import CellRouter
from router.cells import CellsFile

#: Seconds that a stopping router gives the requests it has.
DRAIN_S = 10.0
#: Seconds an idle connection stays open: longer than proxies keep theirs, so that they close first.
KEEP_ALIVE_S = 75.0


def open_router(settings: Settings) -> web.Application:
    """Build the application.

    Raises:
        ConfigurationError: there is no file of cells, or it cannot be.
    """
    if settings.cells_file is None:
        raise ConfigurationError("ATELIER_CELLS_FILE: name the file of cells (docs/cells.md)")
    file = CellsFile(settings.cells_file)
    router = CellRouter(file, settings.api_keys, settings.public_url, settings.max_body_bytes)
    return router.app()


def main() -> None:
    """Serve until told to stop."""
    try:
        settings = get_settings()
        configure(settings.log_level, is_json=settings.log_json)
        app = open_router(settings)
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
