"""Config of masked edits: quality trade-offs, what to record of a template. Pure; no torch."""

from dataclasses import dataclass
from enum import StrEnum


class Keep(StrEnum):
    """What is kept of a template at each block."""

    OUTPUTS = "outputs"  #: what it made of every token (InstGenIE, Fig. 5)
    KEYS = "keys"  #: keys and values of every token: twice the memory, less to compute (Fig. 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskingConfig:
    """What is traded for quality."""

    dilate: int = 1  #: tokens around the mask that are computed too
    full_share: float = 0.1  #: of the steps, spread over them, that run in full
    crop: bool = False  #: whether convolutions are computed in a box around the mask alone
    break_even: float = 0.5  #: share of the image under the mask from which a row runs in full
    keeps: Keep = Keep.OUTPUTS  #: of the blocks of a transformer; a UNet's outputs are kept anyway
