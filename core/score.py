"""What was a finished image worth? Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One finished image as the learned scorer sees it. Scores are the labels of retraining."""

    job: str  #: its id
    prompt: str
    level: str  #: the one it really got, `<model>@<skipped steps>`
    quality: float  #: what the scorer's score is worth, in [0, 1]
