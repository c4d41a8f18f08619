"""Limit the rows of a step to those that fit in memory, group by group. Pure."""

from dataclasses import KW_ONLY, dataclass, field

from worker.diffusion.runner import Group


@dataclass(slots=True, eq=False)
class RowCaps:
    """How many rows of each group fit in memory: halved when they do not, grown back slowly."""

    max_rows: int  #: of a group that has always fit
    _: KW_ONLY
    patience: int = 50  #: good steps at the cap before one more row is tried
    lowered: dict[Group, int] = field(default_factory=dict)  #: where fewer rows fit
    _good: dict[Group, int] = field(default_factory=dict)

    def rows(self, group: Group) -> int:
        """Rows that this group may use now."""
        return self.lowered.get(group, self.max_rows)

    def halve(self, group: Group, rows: int) -> None:
        """Note that so many rows did not fit."""
        self.lowered[group] = max(1, min(rows, self.rows(group)) // 2)
        self._good[group] = 0

    def grow(self, group: Group, rows: int) -> None:
        """Note that so many rows did fit."""
        cap = self.lowered.get(group)
        if cap is None or rows + 1 < cap:
            return
        self._good[group] += 1
        if self._good[group] < self.patience:
            return
        self._good[group] = 0
        self.lowered[group] = cap + 1
        if self.lowered[group] >= self.max_rows:
            del self.lowered[group], self._good[group]
