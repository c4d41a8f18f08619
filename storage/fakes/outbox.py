"""In-memory fake of `Outbox`."""

from collections.abc import Sequence
from dataclasses import replace

from storage.fakes.store import MemoryStore
from storage.jobs.outbox import SETTLE_S, Deliveries, Delivery


class MemoryOutbox(Deliveries):
    """Deliveries of one memory store."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def due(self, now: float | None = None, limit: int = 100) -> list[Delivery]:
        with self.store.lock:
            at = self.store.now() if now is None else now
            posts = sorted(self.store.outbox.values(), key=lambda p: (p.at, p.delivery.id))
            ready = [p for p in posts if p.at <= at][:limit]
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

    async def retry(self, delivery_id: str, wait_s: float) -> bool:
        with self.store.lock:
            post = self.store.outbox.get(delivery_id)
            if post is not None:
                post.at = self.store.now() + wait_s
                post.delivery = _next(post.delivery)
            return self._count(post is not None, "retried")

    async def dead(self, delivery_id: str) -> bool:
        with self.store.lock:
            post = self.store.outbox.pop(delivery_id, None)
            if post is not None:
                post.at = self.store.now()
                post.delivery = _next(post.delivery)
                self.store.dead[delivery_id] = post
            return self._count(post is not None, "dead")

    async def list_dead(self, limit: int = 100, first: int = 0) -> list[Delivery]:
        posts = sorted(self.store.dead.values(), key=lambda p: (p.at, p.delivery.id), reverse=True)
        return [p.delivery for p in posts[first : first + limit]]

    async def get_dead(self, delivery_id: str) -> Delivery | None:
        post = self.store.dead.get(delivery_id)
        return post.delivery if post is not None else None

    async def replay(self, delivery_id: str) -> bool:
        with self.store.lock:
            post = self.store.dead.pop(delivery_id, None)
            if post is not None:
                post.at = self.store.now()
                post.delivery = replace(post.delivery, attempt=0)
                self.store.outbox[delivery_id] = post
            return self._count(post is not None, "replayed")

    def _count(self, was_known: bool, outcome: str) -> bool:
        if was_known:
            self.store.stats[f"webhooks:{outcome}"] += 1
        return was_known


def _next(delivery: Delivery) -> Delivery:
    """A delivery handed out and never settled was no attempt: only `retry` and `dead` count."""
    return replace(delivery, attempt=delivery.attempt + 1)
