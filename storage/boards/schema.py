"""Tell the store which forms this process reads, and learn which may be written."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

from core.errors import ConfigurationError, StoreUnavailable
from core.log import get_logger
from core.schema import SCHEMA, Schema
from core.settings import Settings
from storage.redis.connect import connect_sync
from storage.redis.script import call_sync, load

ANNOUNCE_S = 5.0  #: between two announcements
HOLDS_S = 60.0  #: a process that says nothing for so long is not there

log = get_logger(__name__)


class SchemaAnnouncer:
    """Announces one process as long as it runs, from a thread of its own."""

    def __init__(
        self,
        client: redis.Redis,
        process: str,
        *,
        settle_s: float,
        on_newer: Callable[[], object],
        schema: Schema = SCHEMA,
        every_s: float = ANNOUNCE_S,
    ) -> None:
        """Prepare.

        Args:
            client: of the store; it is closed in the end.
            process: its name, which no other has.
            settle_s: so long all processes must have read a form before it is written.
            on_newer: called once the store has forms that this version cannot read.
            schema: hears which forms may be written.
            every_s: between two announcements.
        """
        self._client = client
        self._process = process
        self._settle_ms = int(settle_s * 1000)
        self._on_newer = on_newer
        self._schema = schema
        self._every_s = every_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schema", daemon=True)

    def start(self) -> None:
        """Announce, and go on doing so; a store that is away is not waited for.

        Raises:
            ConfigurationError: the store has forms that only a newer version reads.
        """
        try:
            self.announce()
        except StoreUnavailable as error:
            log.warning("schema_not_announced", reason=str(error))
        self._thread.start()

    def stop(self) -> None:
        """Be there no more."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            self._tell(0)
        except StoreUnavailable as error:  # it holds no longer than `HOLDS_S`
            log.warning("schema_not_withdrawn", reason=str(error))
        self._client.close()

    def announce(self) -> None:
        """Announce once.

        Raises:
            ConfigurationError: the store has forms that only a newer version reads.
            StoreUnavailable: it may not have heard.
        """
        found = self._tell(HOLDS_S)
        if found > self._schema.number:
            raise ConfigurationError(
                f"the store has schema {found}, and this version reads up to "
                f"{self._schema.number}: start the version that it was upgraded to"
            )
        if found != self._schema.in_force:
            log.info("schema_in_force", schema=found, before=self._schema.in_force)
        self._schema.in_force = found

    def _tell(self, holds_s: float) -> int:
        args = (self._process, self._schema.number, int(holds_s * 1000), self._settle_ms)
        return int(call_sync(self._client, load("announce"), *args))

    def _run(self) -> None:
        while not self._is_over.wait(self._every_s):
            try:
                self.announce()
            except StoreUnavailable as error:
                log.warning("schema_not_announced", reason=str(error))
            except ConfigurationError as error:  # it was silent for as long as an upgrade takes
                log.error("store_is_newer", reason=str(error))
                self._on_newer()
                return


@contextmanager
def announcing(settings: Settings, role: str) -> Iterator[None]:
    """Announce this process until the block ends; one that the store has outgrown ends itself.

    Raises:
        ConfigurationError: the store has forms that only a newer version reads.
    """
    announcer = SchemaAnnouncer(
        connect_sync(settings.redis_url),
        f"{role}@{socket.gethostname()}:{os.getpid()}",
        settle_s=settings.upgrade_settle_s,
        on_newer=lambda: os.kill(os.getpid(), signal.SIGTERM),
    )
    announcer.start()
    try:
        yield
    finally:
        announcer.stop()
