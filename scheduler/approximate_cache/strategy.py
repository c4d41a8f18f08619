"""Switch between approximate caching and smaller models (Argus §4.6), as a state machine.

Pure: the caller brings the clock, and what was seen of retrieval. A job that is to start from
latents depends on the index that finds them and on the object store that keeps them, which its
worker must reach.

    AC   jobs may start from latents. Left at once when half of what one of them was lately asked
         came late or not at all.
    SM   every job runs all of its steps. Left after a hold, once nearly all that index and store
         are asked comes in time: they are probed while no job asks.

A return that does not last doubles the next hold, so a store that comes and goes does not take
the fleet with it; one that lasts makes it short again. While smaller models load, the plan is
made with a margin: the large ones are slower without their latents, and work piles up.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from core.boards.plan import Strategy, Switch


class Dependency(StrEnum):
    """Whom a job depends on that starts from latents."""

    INDEX = "index"  #: of prompts, with the encoder before it
    STORE = "store"  #: of objects, as probes see it
    READS = "reads"  #: of latents by workers: nobody probes these


#: Those who are asked whatever the strategy.
PROBED = (Dependency.INDEX, Dependency.STORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRules:
    """When to switch."""

    memory: int = 10  #: answers of each dependency that count, the last ones
    memory_s: float = 30.0  #: and no older ones
    min_answers: int = 4  #: bad ones to leave AC, any to leave SM: fewer say nothing
    bad_share: float = 0.5  #: of the answers, from which on AC is left
    good_share: float = 0.9  #: of the answers since then, from which on SM is left
    hold_s: float = 10.0  #: seconds in SM at least
    max_hold_s: float = 320.0
    lasting_holds: float = 6.0  #: a return that lasts so many holds makes the next one short again
    margin: float = 1.5  #: of the demand, while smaller models load (Argus §4.6)
    max_loading_s: float = 120.0  #: a model that has not loaded by then gets no more margin


class _Answer(NamedTuple):
    at: float
    is_good: bool


class StrategySwitch:
    """Holds the strategy. `see` what happens, then `turn`."""

    def __init__(self, rules: SwitchRules = SwitchRules()) -> None:
        self._rules = rules
        self._answers = {whom: deque[_Answer](maxlen=rules.memory) for whom in Dependency}
        self._hold_s = rules.hold_s
        self._is_loading = False
        self.last: Switch | None = None  #: None: AC since the start

    @property
    def strategy(self) -> Strategy:
        return Strategy.AC if self.last is None else self.last.to

    @property
    def allows_latents(self) -> bool:
        """Say whether jobs may start from latents."""
        return self.strategy is Strategy.AC

    @property
    def margin(self) -> float:
        """Plan for so many times the demand."""
        return self._rules.margin if self._is_loading else 1.0

    def resume(self, last: Switch | None) -> None:
        """Go on where another scheduler stood, or this one before it was started again.

        Out of SM leads a whole hold from now on, of which nothing was seen yet.
        """
        self._begin(last)

    def see(self, whom: Dependency, *, good: int = 0, bad: int = 0, now: float) -> None:
        """Note what one of them was asked: answers in time, and late or missing ones."""
        most = self._rules.memory
        if good > 0:
            self._answers[whom].extend([_Answer(now, True)] * min(good, most))
        if bad > 0:
            self._answers[whom].extend([_Answer(now, False)] * min(bad, most))

    def turn(self, now: float, *, is_settled: bool) -> Switch | None:
        """Change the strategy if there is reason to, and say so.

        Args:
            is_settled: every worker holds the model that the last plan gave it.
        """
        self._forget(now)
        cause = self._why_leave() if self.allows_latents else self._why_return(now)
        if cause is None:
            self._end_loading(now, is_settled)
            return None
        if self.allows_latents:
            self._set_hold(now)
        self._begin(Switch(to=self._other, at=now, cause=cause))
        return self.last

    @property
    def _other(self) -> Strategy:
        return Strategy.SM if self.allows_latents else Strategy.AC

    def _begin(self, switch: Switch | None) -> None:
        self.last = switch
        self._is_loading = not self.allows_latents
        for answers in self._answers.values():
            answers.clear()

    def _end_loading(self, now: float, is_settled: bool) -> None:
        since = self.last.at if self.last is not None else now
        if is_settled or now - since > self._rules.max_loading_s:
            self._is_loading = False

    def _set_hold(self, now: float) -> None:
        """Choose how long latents will have to do well, from how long they just did."""
        rules = self._rules
        has_lasted = self.last is None or now - self.last.at >= rules.lasting_holds * self._hold_s
        self._hold_s = rules.hold_s if has_lasted else min(2 * self._hold_s, rules.max_hold_s)

    def _forget(self, now: float) -> None:
        for answers in self._answers.values():
            while answers and now - answers[0].at > self._rules.memory_s:
                answers.popleft()

    def _why_leave(self) -> str | None:
        for whom, answers in self._answers.items():
            bad = sum(not answer.is_good for answer in answers)
            if bad >= max(self._rules.min_answers, self._rules.bad_share * len(answers)):
                return f"{whom}: {bad} of the last {len(answers)} answers late or missing"
        return None

    def _why_return(self, now: float) -> str | None:
        """Whoever is probed does well, and a hold has passed."""
        if self.last is not None and now - self.last.at < self._hold_s:
            return None
        for whom in PROBED:
            recent = [a.is_good for a in self._answers[whom] if now - a.at <= self._hold_s]
            if len(recent) < self._rules.min_answers:
                return None
            if sum(recent) < self._rules.good_share * len(recent):
                return None
        return f"index and store answer in time, {self._hold_s:g} s or more after the last switch"
