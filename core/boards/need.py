"""Memory that a model takes on a device. Pure data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What one model takes: all the time, and while it computes.

    Of several models one computes at a time, so what they take together is their weights and the
    largest work among them.
    """

    weights_gib: float  #: in the precision they run in
    work_gib: float = 0.0  #: of an image of its usual size: a step, and the decoding of another
    step_gib: float = 0.0  #: of that, the step
    most_gib: float = 0.0  #: as `work_gib`, of the largest that it makes
    encoders_gib: float = 0.0  #: of the weights, those of its text encoders
    layer_gib: float = 0.0  #: of these, their largest layer
    is_offloaded: bool = False  #: whether they stay on the host, and come layer by layer

    @property
    def gib(self) -> float:
        """What it takes at least, alone on a device."""
        return self.weights_gib + self.work_gib

    def offloaded(self) -> "Need":
        """Say what it takes where its text encoders stay on the host."""
        return replace(
            self,
            weights_gib=self.weights_gib - self.encoders_gib,
            work_gib=self.work_gib + self.layer_gib,
            most_gib=max(self.most_gib, self.work_gib) + self.layer_gib,
            is_offloaded=True,
        )

    def within(self, memory_gib: float) -> "Need":
        """Choose for a device: the whole model if it fits alone, else without its text encoders.

        Whatever else is held at the time decides nothing: it comes and goes.
        """
        if self.gib <= memory_gib or not self.encoders_gib:
            return self
        return self.offloaded()


def together_gib(needs: Sequence[Need]) -> float:
    """Add up what models take that are held at a time, whatever they are asked for."""
    weights = sum(each.weights_gib for each in needs)
    return weights + max((max(each.work_gib, each.most_gib) for each in needs), default=0.0)
