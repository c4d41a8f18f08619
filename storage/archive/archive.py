"""What is asked of the archive, which has the jobs that left the store; what is asked of none."""

from collections.abc import Sequence
from typing import Protocol

from core.job import JobStatus
from storage.archive.records import Archived


class Archive(Protocol):
    """What is asked of an archive. What Redis has of a job is newer, and looked at first."""

    async def find(self, ids: Sequence[str]) -> Sequence[Archived]:
        """Read some jobs; those that are not there are left out."""

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None,
        is_buried: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> Sequence[Archived]:
        """Read up to `limit` jobs of a tenant, newest first, that come after a place.

        `is_buried`: those that ended for want of attempts, all of which have failed.
        """

    async def find_old(
        self, before_ms: int, tenant: str, limit: int, skip: int
    ) -> Sequence[Archived]:
        """Read jobs that ended before a moment, of one tenant or (empty) of all, beyond `skip`."""

    async def delete(self, ids: Sequence[str]) -> None:
        """Delete jobs; those that are not there are nothing to it."""

    def close(self) -> None:
        """Close its connections."""


class NoArchive(Archive):
    """Nothing was archived, and nothing will be: jobs stay in Redis."""

    async def find(self, ids: Sequence[str]) -> Sequence[Archived]:
        return ()

    async def list(
        self,
        tenant: str,
        *,
        status: JobStatus | None,
        is_buried: bool,
        after: tuple[int, str] | None,
        limit: int,
    ) -> Sequence[Archived]:
        return ()

    async def find_old(
        self, before_ms: int, tenant: str, limit: int, skip: int
    ) -> Sequence[Archived]:
        return ()

    async def delete(self, ids: Sequence[str]) -> None:
        return None

    def close(self) -> None:
        return None


NO_ARCHIVE = NoArchive()
