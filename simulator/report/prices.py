"""Read what devices cost: `h200=3.5,l40s=.9`."""

from core.errors import ConfigurationError
from simulator.report.costs import Prices

MOST_TYPES = 4  #: the fleets to choose from grow with the power of it
LEAST, MOST = 1e-6, 1e9  #: in any currency; with others the linear program loses its digits


def parse_prices(text: str) -> Prices:
    """Read prices of an hour by device type.

    Raises:
        ConfigurationError: it is none; the message names the part.
    """
    prices: dict[str, float] = {}
    for part in text.split(","):
        name, equals, figure = (each.strip() for each in part.rpartition("="))
        price = _number(figure)
        if not (name and equals and price is not None):
            raise ConfigurationError(f"price: {part[:80]!r} is not TYPE=PRICE, such as h200=3.5")
        if name in prices:
            raise ConfigurationError(f"price: {name[:80]!r} is there twice")
        if not LEAST <= price <= MOST:
            said = f"{figure[:20]} must be above 0, {LEAST:g} to {MOST:g}"
            raise ConfigurationError(f"price: {name[:80]}: {said}")
        prices[name] = price
    if len(prices) > MOST_TYPES:
        raise ConfigurationError(f"price: {len(prices)} types of devices; at most {MOST_TYPES}")
    return prices


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
