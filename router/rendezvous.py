"""Weighted rendezvous hashing: which cell is home to a tenant. Pure.

Source: Thaler and Ravishankar, 1998; weights as of Schindelhauer and Schomaker, 2005. A cell that
comes takes tenants and moves no other; of one that goes only its own tenants move.
"""

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b

#: Weights are rounded to steps of this, so that what changes a little moves nobody.
STEP = 2**0.25


def ranked(key: str, weights: Mapping[str, float]) -> Sequence[str]:
    """List cells by how near they are to a key; each is first for its share of all keys."""
    return sorted(weights, key=lambda cell: (_distance(key, cell, weights[cell]), cell))


def uniform(*parts: str) -> float:
    """Draw a number in (0, 1) that hangs on nothing but a text."""
    text = "\0".join(parts).encode(errors="surrogatepass")
    return (int.from_bytes(blake2b(text, digest_size=8).digest()) | 1) / 2**64


def stepped(weight: float) -> float:
    """Round a weight to a step."""
    return STEP ** round(math.log(weight, STEP))


def _distance(key: str, cell: str, weight: float) -> float:
    return -math.log(uniform(cell, key)) / weight
