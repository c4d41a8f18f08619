"""Parts of a denoising schedule, as counts of a schedule of 50 steps. Pure."""

#: Parts of any schedule are counted in steps of one of this many (Argus §2.1).
SCHEDULE_STEPS = 50


def scaled(count: int, steps: int) -> int:
    """Count the steps that so many of 50 are in a schedule of `steps`."""
    return count * steps // SCHEDULE_STEPS
