"""Learning-rate schedule: warm-up, constant, linear decay."""

_FINAL_SHARE = 0.02


def share_of_peak(step: int, *, steps: int, decay_steps: int, warmup_steps: int) -> float:
    """Give the share of the peak rate: linear warm-up, constant, linear decay to a fiftieth."""
    rise = min(1.0, (step + 1) / warmup_steps)
    fall = min(1.0, max(_FINAL_SHARE, (steps - step) / decay_steps))
    return rise * fall
