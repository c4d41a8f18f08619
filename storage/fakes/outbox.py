"""In-memory fake of `Outbox`."""

from collections.abc import Sequence
from dataclasses import replace

from storage.fakes.record import Posted
from storage.fakes.store import MemoryStore
from storage.jobs.outbox import (
    MAX_DEAD,
    MAX_PENDING,
    SETTLE_S,
    DeadDelivery,
    DeadPage,
    Deliveries,
    Delivery,
)
from storage.redis.index import read_cursor, write_cursor

#: As in `storage/redis/scripts/prelude.lua`.
KEEP_DEAD_S, MAX_DROPPED = 7 * 86_400.0, 100


class MemoryOutbox(Deliveries):
    """Deliveries of one memory store."""

    def __init__(
        self, store: MemoryStore, *, max_dead: int = MAX_DEAD, max_pending: int = MAX_PENDING
    ) -> None:
        self.store = store
        self._max_dead = max_dead
        self._max_pending = max_pending

    async def trim(self) -> None:
        with self.store.lock:
            room = MAX_DROPPED
            for tenant in sorted({p.delivery.tenant for p in self.store.outbox.values()}):
                room -= self._give_up_oldest(tenant, room)

    async def due(self, now: float | None = None, limit: int = 100) -> list[Delivery]:
        with self.store.lock:
            at = self.store.now() if now is None else now
            ready = self._due(at)[:limit]
            for post in ready:
                post.at = at + SETTLE_S
            again_ms = int(1000 * (at + SETTLE_S))
            return [replace(_next(p.delivery), again_ms=again_ms) for p in ready]

    async def current(self, deliveries: Sequence[Delivery]) -> set[str]:
        with self.store.lock:
            posts = {name: int(1000 * post.at) for name, post in self.store.outbox.items()}
            known = [each for each in deliveries if each.id in posts]
            return {each.id for each in known if each.again_ms in (0, posts[each.id])}

    async def done(self, delivery_id: str, outcome: str = "delivered") -> bool:
        with self.store.lock:
            known = self.store.outbox.pop(delivery_id, None) is not None
            return self._count(known, outcome)

    async def retry(self, delivery: Delivery, wait_s: float) -> bool:
        with self.store.lock:
            post = self.store.outbox.get(delivery.id)
            if post is not None and post.delivery.attempt >= delivery.attempt:
                return True
            if post is not None:
                post.at = self.store.now() + wait_s
                post.delivery = _next(post.delivery)
            return self._count(post is not None, "retried")

    async def dead(self, delivery_id: str) -> bool:
        with self.store.lock:
            post = self.store.outbox.pop(delivery_id, None)
            if post is not None:
                post.delivery = _next(post.delivery)
                self._bury(post)
            return self._count(post is not None, "dead")

    async def list_dead(
        self, tenant: str, *, limit: int = 20, cursor: str | None = None
    ) -> DeadPage:
        place = read_cursor(cursor)
        posts = [p for p in self._dead_of(tenant) if place is None or _place(p) < place]
        page = posts[:limit]
        return DeadPage(
            dead=tuple(DeadDelivery(delivery=p.delivery, at=p.at) for p in page),
            cursor=write_cursor(*_place(page[-1])) if len(posts) > limit else None,
        )

    async def get_dead(self, delivery_id: str, tenant: str) -> Delivery | None:
        found = (p.delivery for p in self._dead_of(tenant) if p.delivery.id == delivery_id)
        return next(found, None)

    async def replay(self, delivery_id: str) -> bool:
        with self.store.lock:
            post = self.store.dead.pop(delivery_id, None)
            if post is not None and not self._is_kept(post):
                post = None
            if post is not None:
                post.at = self.store.now()
                post.delivery = replace(post.delivery, attempt=0)
                self.store.outbox[delivery_id] = post
            return self._count(post is not None, "replayed")

    def _due(self, at: float) -> list[Posted]:
        posts = sorted(self.store.outbox.values(), key=lambda p: (p.at, p.delivery.id))
        return [post for post in posts if post.at <= at]

    def _give_up_oldest(self, tenant: str, room: int) -> int:
        pending = [p for p in self.store.outbox.values() if p.delivery.tenant == tenant]
        many = min(max(0, len(pending) - self._max_pending), room)
        for post in pending[:many]:
            del self.store.outbox[post.delivery.id]
            if post.delivery.event == "completed":
                self._bury(post)
            self._count(True, "dead" if post.delivery.event == "completed" else "dropped")
        return many

    def _bury(self, post: Posted) -> None:
        post.at = self.store.now()
        self.store.dead[post.delivery.id] = post
        self._drop_oldest(post.delivery.tenant)

    def _is_kept(self, post: Posted) -> bool:
        return post.at > self.store.now() - KEEP_DEAD_S

    def _dead_of(self, tenant: str) -> list[Posted]:
        """List what was given up of a tenant and is kept, the latest first."""
        posts = [
            p for p in self.store.dead.values() if p.delivery.tenant == tenant and self._is_kept(p)
        ]
        return sorted(posts, key=_place, reverse=True)

    def _drop_oldest(self, tenant: str) -> None:
        kept = {p.delivery.id for p in self._dead_of(tenant)[: self._max_dead]}
        dead = self.store.dead
        self.store.dead = {
            n: p for n, p in dead.items() if p.delivery.tenant != tenant or n in kept
        }

    def _count(self, was_known: bool, outcome: str) -> bool:
        if was_known:
            self.store.stats[f"webhooks:{outcome}"] += 1
        return was_known


def _place(post: Posted) -> tuple[int, str]:
    return round(post.at * 1e3), post.delivery.id


def _next(delivery: Delivery) -> Delivery:
    """A delivery handed out and never settled was no attempt: only `retry` and `dead` count."""
    return replace(delivery, attempt=delivery.attempt + 1)
