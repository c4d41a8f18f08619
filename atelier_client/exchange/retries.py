"""Which requests are tried again, and when. Pure.

What the service refused with `Retry-After` (429) was not done, so it is asked for again then. What
was perhaps heard is repeated only where that changes nothing: reads, and submits, which carry an
idempotency key.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from atelier_client.exchange.steps import Answer, Call, Heard, Lost

#: Answers of a service, or of a proxy before it, that may be another a moment later.
PASSING: Final = frozenset({502, 503, 504})
BACKOFF_S: Final = 0.5
MAX_BACKOFF_S: Final = 8.0
#: Share of a pause that is random, so that clients do not come back all at once.
JITTER: Final = 0.25
#: Seconds: who is told to wait longer is told so.
MAX_WAIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How patient a client is."""

    most: int = 2  #: tries after the first; 0: none
    max_wait_s: float = MAX_WAIT_S

    def attempts(self) -> Iterable[int]:
        """Number the tries that another may follow."""
        return range(1, self.most + 1)

    def pause_s(self, call: Call, heard: Heard, attempt: int, random: float) -> float | None:
        """Tell after which pause to try again; None: what was heard is what counts."""
        backoff_s = min(MAX_BACKOFF_S, BACKOFF_S * 2 ** (attempt - 1)) * (1 - JITTER * random)
        match heard:
            case Lost(was_sent=was_sent):
                return backoff_s if call.may_repeat or not was_sent else None
            case Answer(status=429):
                return self._asked_for(retry_after_s(heard))
            case Answer(status=status) if status in PASSING and call.may_repeat:
                told_s = retry_after_s(heard)
                return backoff_s if told_s is None else self._asked_for(told_s)
        return None

    def _asked_for(self, told_s: float | None) -> float | None:
        return told_s if told_s is not None and told_s <= self.max_wait_s else None


def retry_after_s(answer: Answer) -> float | None:
    """Read `Retry-After` in seconds, as this service sends it; None: it does not say."""
    told = answer.headers.get("retry-after", "")
    return float(told) if told.isdecimal() else None
