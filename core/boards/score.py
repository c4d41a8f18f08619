"""Score of a finished image. Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One finished image as the learned scorer sees it. Scores are the labels of retraining."""

    job: str  #: its id
    prompt: str
    level: str  #: the one it really got, `<model>@<approximation>`
    #: What the exact checker would say, in [0, 1]: an unbiased estimate, which may lie beyond.
    quality: float
    variance: float = 0.0  #: of what the estimate is off by; 0: the image was checked
