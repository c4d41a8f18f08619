"""Cost of an image on a device: step seconds by batch size, and fixed seconds. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one model takes of one type of device."""

    fixed_s: float = 0.0  #: of an image, before its first and after its last step
    #: images that share a step, rising, and seconds of that step; at least one pair
    steps: tuple[tuple[int, float], ...]
    is_measured: bool = False  #: not guessed from the model's own description

    def step_s(self, images: float) -> float:
        """Time of one step that so many images share: between and beyond what was measured.

        With one measured batch it grows as the images do, as if they took turns.
        """
        if len(self.steps) == 1:
            shared, seconds = self.steps[0]
            return seconds * max(1.0, images / shared)
        left, right = self.steps[:2]
        for following in self.steps[2:]:
            if images > right[0]:
                left, right = right, following
        slope = (right[1] - left[1]) / (right[0] - left[0])
        return left[1] + slope * (max(images, self.steps[0][0]) - left[0])

    def image_s(self, steps: float) -> float:
        """Time of one image that is alone on its device."""
        return self.fixed_s + steps * self.step_s(1)
