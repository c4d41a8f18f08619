"""How figures of a kind are written: scale, digits, suffix."""

from dataclasses import dataclass

#: Between digits of thousands, and before a suffix: does not break a line.
THIN = "\u202f"
NOTHING = "\u2013"  #: where there is no figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One kind of figure; the page's script writes it in the same way."""

    name: str = ""  #: for an axis
    scale: float = 1.0  #: a value is multiplied by this before it is written
    digits: int = 0  #: after the point
    prefix: str = ""
    suffix: str = ""

    def write(self, value: float | None) -> str:
        """Write a value; a dash for none."""
        if value is None or value != value:
            return NOTHING
        figure = f"{abs(value * self.scale):,.{self.digits}f}".replace(",", THIN)
        sign = "\u2212" if value < 0 and figure.strip("0.") else ""
        return f"{sign}{self.prefix}{figure}{self.suffix}"


COUNT = Unit()
SHARE = Unit(scale=100.0, digits=1, suffix=f"{THIN}%")
QUALITY = Unit(digits=3)
SECONDS = Unit(name="seconds", digits=2, suffix=f"{THIN}s")
PER_SECOND = Unit(name="a second", digits=2, suffix=f"{THIN}/s")
PER_MINUTE = Unit(name="a minute", scale=60.0, digits=1, suffix=f"{THIN}/min")
MONEY = Unit(digits=2)
PER_THOUSAND = Unit(name="for 1,000", scale=1000.0, digits=2)
