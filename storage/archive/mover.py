"""Move jobs that ended a while ago from Redis to the archive: written there first, then dropped."""

import uuid
from collections.abc import Iterable, Sequence

from redis import Redis
from sqlalchemy import Engine

from core.log import get_logger
from storage.archive.migrate import upgrade
from storage.archive.records import Archived
from storage.archive.writer import writing
from storage.redis.connect import Word, ask_sync
from storage.redis.keys import ARCHIVING
from storage.redis.script import call_sync, load, pairs

PAGE = 100  #: jobs of one transaction, so that no other client waits long
PAGES = 50  #: of one run; the next run goes on

log = get_logger(__name__)


class Mover:
    """Moves what has ended. A crash between leaves a job in both places, and the next run repeats.

    Of several movers at once one writes at a time, and the last that took a job drops it.
    """

    def __init__(self, redis: Redis, engine: Engine, *, after_s: float) -> None:
        """Prepare; a job stays in Redis for `after_s` after its end."""
        self._redis = redis
        self._engine = engine
        self._after_ms = int(after_s * 1000)
        self._is_upgraded = False

    def run(self) -> int:
        """Move what is due; return how many jobs left Redis.

        Raises:
            ArchiveUnavailable: the database cannot serve; all stays where it is.
            StoreUnavailable: Redis cannot serve; what was written is dropped later.
        """
        if not self._is_upgraded:
            upgrade(self._engine)
            self._is_upgraded = True
        moved = skip = 0
        for _ in range(PAGES):
            token = uuid.uuid4().hex
            looked, written = self.write(token, skip)
            dropped = self.drop(token, written)
            moved, skip = moved + dropped, skip + looked - dropped
            if looked < PAGE:
                break
        if moved:
            log.info("archived", jobs=moved)
        return moved

    def write(self, token: str, skip: int = 0) -> tuple[int, Sequence[Archived]]:
        """Write a page of what has ended, beyond `skip`; return how many were looked at, and it."""
        with writing(self._engine) as writer:  # it is read when nobody else can write any more
            answer = call_sync(self._redis, load("ended"), token, self._after_ms, PAGE, skip)
            looked, taken, gone = answer
            written = [Archived(id=job_id.decode(), fields=pairs(flat)) for job_id, flat in taken]
            writer.delete(_names(gone))
            writer.put(written)
        self._let_go(gone)
        return looked, written

    def drop(self, token: str, written: Sequence[Archived]) -> int:
        """Drop from Redis what was written, but for what has changed; return how many."""
        ids, ends = [j.id for j in written], [j.fields[b"finished_at"] for j in written]
        words: list[Word] = [token, len(written), *ids, *ends]
        dropped, gone = call_sync(self._redis, load("archived"), *words)
        if gone:
            with writing(self._engine) as writer:
                writer.delete(_names(gone))
            self._let_go(gone)
        return int(dropped)

    def _let_go(self, gone: Sequence[bytes]) -> None:
        if gone:
            ask_sync(self._redis, "HDEL", ARCHIVING, *gone)


def _names(words: Iterable[bytes]) -> list[str]:
    return [word.decode() for word in words]
