"""IP-Adapters of the service and their use in a job: attention to pictures. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IpAdapter:
    """One IP-Adapter of the service, as its `atelier.json` describes it."""

    name: str  #: that of its folder too
    models: tuple[str, ...]  #: that it was made for


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedIpAdapter:
    """One IP-Adapter in a job, with the picture that the image attends to."""

    id: str  #: its name
    image: str  #: key of the picture: PNG, RGB, of any size
    models: tuple[str, ...]  #: that it was made for
    scale: float = 1.0  #: of what the picture adds to each attention

    @property
    def group(self) -> tuple[str, float]:
        """What rows of one forward pass share that attend to pictures."""
        return self.id, self.scale
