"""In-memory fake of `ScoreStream`."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice

from core.boards.score import Score
from storage.boards.scores import FIRST, MAX_SCORES, ScorePage, Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    number: int
    at: float  #: s of the clock
    score: Score


class MemoryScores(Scores):
    """Scores in memory."""

    def __init__(
        self, *, max_scores: int = MAX_SCORES, clock: Callable[[], float] = time.time
    ) -> None:
        self._entries: deque[_Entry] = deque(maxlen=max_scores)
        self._numbers = count(1)
        self._clock = clock

    async def add(self, scores: Sequence[Score]) -> None:
        for score in scores:
            entry = _Entry(number=next(self._numbers), at=self._clock(), score=score)
            self._entries.append(entry)

    async def after(self, cursor: str, limit: int) -> ScorePage:
        found = list(islice((e for e in self._entries if e.number > int(cursor)), limit))
        return ScorePage(
            scores=tuple(entry.score for entry in found),
            cursor=str(found[-1].number) if found else cursor,
        )

    async def last(self) -> str:
        return str(self._entries[-1].number) if self._entries else FIRST

    async def forget(self, age_s: float) -> None:
        while self._entries and self._entries[0].at < self._clock() - age_s:
            self._entries.popleft()
