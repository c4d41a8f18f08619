"""Colours of reports, light and dark, told apart by the colour-blind and by their lightness.

A paint is a name: `c0` to `c7` for things without an order, `r0` to `r12` for levels from the best
to the fastest, `good`, `bad`, `muted`, and those of text and ground.
"""

from collections.abc import Sequence

#: Paint -> its colour on light and on dark ground.
PAINTS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#11161d"),
    "card": ("#f6f8fa", "#1a212b"),
    "line": ("#d5dce4", "#323c49"),
    "text": ("#17202b", "#e8edf3"),
    "soft": ("#55616f", "#a3b0bf"),
    "muted": ("#8793a1", "#76838f"),
    "good": ("#0f7a4f", "#4cc38a"),
    "bad": ("#b93815", "#ff9068"),
    "c0": ("#0a5fc4", "#6fb3ff"),
    "c1": ("#c2410c", "#ff9a62"),
    "c2": ("#0c7d6a", "#45d0b4"),
    "c3": ("#8a3ea8", "#d6a1f5"),
    "c4": ("#8f6500", "#e6bd45"),
    "c5": ("#c02673", "#ff8cc0"),
    "c6": ("#0b7796", "#58cdec"),
    "c7": ("#5b6673", "#aab6c3"),
}

#: From the best level to the fastest, on light and on dark ground; between them colours are mixed.
ANCHORS = (
    ("#1b3f7d", "#22628f", "#28838f", "#4aa37f", "#86bd6a", "#b9bb4c", "#e3b550"),
    ("#4474c4", "#4f97cc", "#57b2ba", "#76c69c", "#a1d383", "#d0dd7c", "#f3e6a0"),
)

UNORDERED = 8  #: paints without an order
ORDERED = 13  #: paints with one


def _mixed(anchors: Sequence[str], part: float) -> str:
    """Mix the two anchors that a part of the way from the first to the last lies between."""
    at = part * (len(anchors) - 1)
    low = min(int(at), len(anchors) - 2)
    pairs = zip(_channels(anchors[low]), _channels(anchors[low + 1]), strict=True)
    return "#" + "".join(f"{round(one + (at - low) * (two - one)):02x}" for one, two in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def paint_of(index: int) -> str:
    """Name the paint of the i-th of things without an order; they recur after eight."""
    return f"c{index % UNORDERED}"


def ramp(names: Sequence[str]) -> dict[str, str]:
    """Give ordered names paints from dark to light, as far apart as their number allows."""
    steps = max(1, len(names) - 1)
    return {name: f"r{round(i * (ORDERED - 1) / steps)}" for i, name in enumerate(names)}


def colour(paint: str, *, is_dark: bool = False) -> str:
    """Look a paint up, as #rrggbb."""
    if paint[0] == "r":
        return _mixed(ANCHORS[is_dark], int(paint[1:]) / (ORDERED - 1))
    return PAINTS[paint][is_dark]


def style() -> str:
    """Write the paints as CSS, for either ground and for paper."""
    names = [*PAINTS, *(f"r{i}" for i in range(ORDERED))]
    light, dark = (
        ";".join(f"--{name}:{colour(name, is_dark=is_dark)}" for name in names)
        for is_dark in (False, True)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )
