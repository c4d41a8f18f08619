"""Work that one image adds to a worker's batch. Pure data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWork:
    """One image on its way, or on the way to be: what it adds to the steps of a worker's batch."""

    job: str  #: its id
    model: str
    steps: int  #: left
    rows: int  #: of one forward pass
    pixels: int
    masked: float = 1.0  #: share of the image that most of its steps compute; 1: all of it
    #: Name of what was recorded of its template, without which it computes all, and one row more.
    #: Empty where that is decided: it began, or takes nothing from any template.
    recording: str = ""
