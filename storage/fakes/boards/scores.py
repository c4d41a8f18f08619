"""In-memory fake of `ScoreStream`."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice

from core.boards.score import Score
from storage.boards.scores import FIRST, MAX_SCORES, ScorePage, Scores
from storage.fakes.store import MemoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    number: int
    at: float  #: s of the clock
    score: Score


class MemoryScores(Scores):
    """Scores in memory, each as long as its job is in a store; without one, of any job."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        max_scores: int = MAX_SCORES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._entries: deque[_Entry] = deque(maxlen=max_scores)
        self._numbers = count(1)
        self._clock = clock

    async def add(self, scores: Sequence[Score]) -> None:
        for score in scores:
            if not self._may_have(score.job):
                continue
            entry = _Entry(number=next(self._numbers), at=self._clock(), score=score)
            self._entries.append(entry)

    async def after(self, cursor: str, limit: int) -> ScorePage:
        self._drop_deleted()
        found = list(islice((e for e in self._entries if e.number > int(cursor)), limit))
        return ScorePage(
            scores=tuple(entry.score for entry in found),
            cursor=str(found[-1].number) if found else cursor,
        )

    async def last(self) -> str:
        self._drop_deleted()
        return str(self._entries[-1].number) if self._entries else FIRST

    async def forget(self, age_s: float) -> None:
        while self._entries and self._entries[0].at < self._clock() - age_s:
            self._entries.popleft()

    def _may_have(self, job_id: str) -> bool:
        """Tell whether a job has ended and has no score yet."""
        if self._store is None:
            return True
        record = self._store.records.get(job_id)
        is_scored = any(entry.score.job == job_id for entry in self._entries)
        return record is not None and record.job.status.is_terminal and not is_scored

    def _drop_deleted(self) -> None:
        if self._store is not None:
            there = [e for e in self._entries if e.score.job in self._store.records]
            self._entries = deque(there, maxlen=self._entries.maxlen)
