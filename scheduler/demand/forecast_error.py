"""Forecast error: compare each demand forecast with what arrived. Pure."""

from collections.abc import Mapping

KEPT = 0.95  #: of what was known before, when a forecast more is judged: about the last twenty


class ForecastError:
    """Compares each forecast with what came until the next one."""

    def __init__(self, kept: float = KEPT) -> None:
        self._kept = kept
        self._expected: Mapping[str, float] = {}
        self._before: Mapping[str, float] = {}
        self._at: float | None = None
        self._came = self._missed = self._excess = 0.0

    def judge(
        self, expected: Mapping[str, float], arrived: Mapping[str, float], now: float
    ) -> None:
        """Judge the forecast before this one.

        Args:
            expected: application -> jobs/s, from now on.
            arrived: application -> jobs since the start.
        """
        if self._at is not None and now > self._at:
            self._settle(arrived, now - self._at)
        self._expected, self._before, self._at = dict(expected), dict(arrived), now

    @property
    def error(self) -> float:
        """Sum of what was missed and what did not come, as a share of what came (WAPE)."""
        return (self._missed + self._excess) / self._came if self._came > 0 else 0.0

    @property
    def missed(self) -> float:
        """Share of what came that no forecast had expected, in [0, 1]."""
        return self._missed / self._came if self._came > 0 else 0.0

    def _settle(self, arrived: Mapping[str, float], seconds: float) -> None:
        self._came, self._missed, self._excess = (
            self._kept * known for known in (self._came, self._missed, self._excess)
        )
        for name in arrived.keys() | self._expected.keys():
            came = arrived.get(name, 0.0) - self._before.get(name, 0.0)
            off = came - seconds * self._expected.get(name, 0.0)
            self._came += came
            self._missed += max(0.0, off)
            self._excess += max(0.0, -off)
