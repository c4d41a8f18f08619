"""Store of applications in Redis: registered by tenants, read by api and schedulers."""

import builtins
from collections.abc import Iterable
from typing import Protocol

from redis.asyncio import Redis

from core.application import Application
from core.codec import decode, encode
from core.errors import Conflict, NotFound, TooManyRequests
from storage.redis.connect import ask, converting_errors
from storage.redis.keys import APPLICANTS, applications_key
from storage.redis.script import call, load

#: Seconds until a tenant that has as many as it may should ask again.
FULL_RETRY_S = 60.0


class Applications(Protocol):
    """What the api and the scheduler ask of a store of applications."""

    async def add(self, application: Application) -> None:
        """Register an application."""

    async def get(self, tenant: str, name: str) -> Application:
        """Read one application of a tenant."""

    async def list(self, tenant: str) -> builtins.list[Application]:
        """Read the applications of a tenant, by name."""

    async def remove(self, tenant: str, name: str) -> None:
        """Forget an application; its jobs are served as the default one's."""

    async def all(self) -> builtins.list[Application]:
        """Read the applications of all tenants."""


class ApplicationStore:
    """Applications in Redis: one hash a tenant."""

    def __init__(self, redis: Redis, *, max_applications: int) -> None:
        self._redis = redis
        self._max_applications = max_applications

    async def add(self, application: Application) -> None:
        """Register an application.

        Raises:
            Conflict: its tenant has one of this name.
            TooManyRequests: its tenant has as many as it may.
        """
        args = (application.tenant, application.name, encode(application), self._max_applications)
        answer = await call(self._redis, load("register"), *args)
        if answer == 0:
            raise name_taken(application.name)
        if answer < 0:
            raise full(self._max_applications)

    async def get(self, tenant: str, name: str) -> Application:
        """Read one application of a tenant.

        Raises:
            NotFound: it has none of this name.
        """
        document = await ask(self._redis, "HGET", applications_key(tenant), name)
        if document is None:
            raise no_such_application(name)
        return decode(document, Application)

    async def list(self, tenant: str) -> builtins.list[Application]:
        """Read the applications of a tenant, by name."""
        documents = await ask(self._redis, "HGETALL", applications_key(tenant))
        return by_key(decode(each, Application) for each in documents.values())

    async def remove(self, tenant: str, name: str) -> None:
        """Forget an application; its jobs are served as the default one's.

        Raises:
            NotFound: its tenant has none of this name.
        """
        if not await ask(self._redis, "HDEL", applications_key(tenant), name):
            raise no_such_application(name)

    async def all(self) -> builtins.list[Application]:
        """Read the applications of all tenants."""
        tenants = sorted(await ask(self._redis, "SMEMBERS", APPLICANTS))
        async with self._redis.pipeline(transaction=False) as pipe:
            for tenant in tenants:
                pipe.execute_command("HVALS", applications_key(tenant.decode()))
            with converting_errors():
                replies = await pipe.execute() if tenants else []
        return by_key(decode(each, Application) for documents in replies for each in documents)


def by_key(applications: Iterable[Application]) -> list[Application]:
    """Sort applications by tenant and name."""
    return sorted(applications, key=lambda each: each.key)


def name_taken(name: str) -> Conflict:
    """Refuse an application whose name its tenant uses already."""
    return Conflict(f"there is an application {name!r} already: delete it first to change it")


def no_such_application(name: str) -> NotFound:
    """Refuse a name that no application has."""
    return NotFound(f"there is no application {name!r}")


def full(max_applications: int) -> TooManyRequests:
    """Refuse one application more than may be registered."""
    detail = f"{max_applications} applications are registered, as many as may be: delete some first"
    return TooManyRequests(detail, FULL_RETRY_S)
