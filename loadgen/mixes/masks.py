"""Draw the share of an image that an edit makes anew. Pure."""

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from loadgen.arrivals.gaps import Seconds

#: Smallest share that is drawn: a mask of nothing is no edit.
LEAST = 0.005
#: First parameter of the beta distribution: its density falls from the left, as in both figures.
FALLING = 0.9


class MaskTrace(StrEnum):
    """Whose edits are imitated (InstGenIE §2.2, Fig. 3)."""

    PRODUCTION = "production"  #: a face-swap service
    PUBLIC = "public"  #: a public trace: restoration of hands and faces
    TRY_ON = "try-on"  #: a benchmark for virtual try-on


#: Mean share of the image under a mask.
MEANS: Mapping[MaskTrace, float] = {
    MaskTrace.PRODUCTION: 0.11,
    MaskTrace.PUBLIC: 0.19,
    MaskTrace.TRY_ON: 0.35,
}


def mask_ratios(trace: MaskTrace, size: int, rng: np.random.Generator) -> Seconds:
    """Draw mask ratios from a beta distribution of the trace's mean."""
    drawn = rng.beta(FALLING, FALLING / MEANS[trace] - FALLING, size)
    return np.maximum(drawn, LEAST)
