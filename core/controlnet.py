"""What may steer the images of a model? ControlNets, each made for some models. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlNet:
    """One ControlNet, as its folder describes it."""

    name: str  #: by which jobs ask for it
    models: tuple[str, ...]  #: that it was made for
    condition: str = ""  #: what the pictures show that images keep to, for a person
