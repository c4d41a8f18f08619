"""The picture that an image starts from in place of noise alone. Pure."""

from dataclasses import dataclass

#: Share of the schedule that is run where a client does not choose.
DEFAULT_STRENGTH = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class InitImage:
    """What the first latents are encoded from. The picture is checked, and in the store."""

    image: str  #: its key: PNG, RGB; scaled to the size of the job
    strength: float = DEFAULT_STRENGTH  #: share of the schedule that is run
