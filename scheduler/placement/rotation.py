"""Names of which some at a time are looked at, all of them in turn. Pure."""


class Rotation:
    """Names in no order; adding, removing and finding one takes the same time however many."""

    def __init__(self) -> None:
        """Have none."""
        self._names: list[str] = []
        self._at: dict[str, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def add(self, name: str) -> None:
        """Put in a name, unless it is there."""
        if name not in self._at:
            self._at[name] = len(self._names)
            self._names.append(name)

    def remove(self, name: str) -> None:
        """Take out a name, if it is there."""
        at = self._at.pop(name, None)
        if at is None:
            return
        last = self._names.pop()
        if last != name:
            self._names[at] = last
            self._at[last] = at

    def take(self, most: int) -> list[str]:
        """Give all names if they are so few, else as many, beginning after the last ones."""
        if len(self._names) <= most:
            return list(self._names)
        first = self._next % len(self._names)
        self._next = first + most
        taken = self._names[first : self._next]
        return taken + self._names[: most - len(taken)]
