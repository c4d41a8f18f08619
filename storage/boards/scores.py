"""Bounded stream of image scores in Redis, read by drift monitor and retraining."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from core.boards.score import Score
from core.codec import decode, encode
from storage.redis.connect import Word, ask
from storage.redis.keys import SCORES
from storage.redis.script import call, load

MAX_SCORES = 20_000  #: twice what Argus trains on (§4.1); the oldest go
FIRST = "0"  #: the cursor before every score


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePage:
    """Some scores, oldest first."""

    scores: tuple[Score, ...]
    cursor: str  #: of the last of them: what comes later is after it


class Scores(Protocol):
    """What is asked of the stream."""

    async def add(self, scores: Sequence[Score]) -> None:
        """Append scores of jobs that have ended, in one trip; none of a job that is deleted."""

    async def after(self, cursor: str, limit: int) -> ScorePage:
        """Read up to `limit` scores that arrived after a cursor."""

    async def last(self) -> str:
        """Say where the stream ends now."""

    async def forget(self, age_s: float) -> None:
        """Drop what is older; whoever deletes a job before that deletes its score with it."""


class ScoreStream:
    """Scores in one Redis stream, in the order of their arrival.

    They hold prompts, and are kept no longer than their jobs, which name them.
    """

    def __init__(self, redis: Redis, *, max_scores: int = MAX_SCORES) -> None:
        self._redis = redis
        self._max_scores = max_scores

    async def add(self, scores: Sequence[Score]) -> None:
        """Append scores of jobs that have ended, in one trip; none of a job that is deleted."""
        words: list[Word] = [word for score in scores for word in (score.job, encode(score))]
        await call(self._redis, load("score"), self._max_scores, *words)

    async def after(self, cursor: str, limit: int) -> ScorePage:
        """Read up to `limit` scores that arrived after a cursor."""
        rows = await ask(self._redis, "XRANGE", SCORES, f"({cursor}", "+", "COUNT", limit)
        return ScorePage(
            scores=tuple(decode(fields[b"score"], Score) for _, fields in rows),
            cursor=rows[-1][0].decode() if rows else cursor,
        )

    async def last(self) -> str:
        """Say where the stream ends now."""
        rows = await ask(self._redis, "XREVRANGE", SCORES, "+", "-", "COUNT", 1)
        return rows[0][0].decode() if rows else FIRST

    async def forget(self, age_s: float) -> None:
        """Drop what is older; whoever deletes a job before that deletes its score with it."""
        seconds, micros = await ask(self._redis, "TIME")
        oldest_ms = int(seconds) * 1000 + int(micros) // 1000 - int(age_s * 1000)
        await ask(self._redis, "XTRIM", SCORES, "MINID", max(oldest_ms, 0))
