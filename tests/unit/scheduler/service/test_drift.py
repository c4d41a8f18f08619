import random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.service.drift import MIN_WINDOWS, DriftDetector, DriftLimits, QualityDrift

LIMITS = DriftLimits(batch=2, window=5, margin=0.1, memory=4, cooldown=2)
MARGIN, IMAGES = LIMITS.margin, LIMITS.batch * LIMITS.window

levels = st.floats(-0.5, 0.5)
#: Of a band no wider than the margin: what no detector may take for a drift.
noise = st.floats(0.0, MARGIN)


def alarms(detector: DriftDetector, residuals: list[float]) -> list[int]:
    """Tell after how many images each alarm came."""
    return [i for i, each in enumerate(residuals, 1) if detector.observe(each) is not None]


@given(levels, st.lists(noise, max_size=200))
def test_residuals_that_stay_within_the_margin_never_raise_an_alarm(
    level: float, noises: list[float]
) -> None:
    assert alarms(DriftDetector(LIMITS), [level + each for each in noises]) == []


@given(
    levels,
    st.lists(noise, min_size=MIN_WINDOWS * IMAGES, max_size=100),
    st.floats(3.01 * MARGIN, 1.0),
    st.lists(noise, min_size=2 * IMAGES, max_size=2 * IMAGES),
)
def test_a_fall_raises_an_alarm_within_two_windows(
    level: float, before: list[float], fall: float, after: list[float]
) -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [level + each for each in before]) == []
    assert alarms(detector, [level - fall + each for each in after])


@given(levels, st.floats(3.01 * MARGIN, 1.0))
def test_a_rise_raises_none(level: float, rise: float) -> None:
    residuals = [level] * 40 + [level + rise] * 80
    assert alarms(DriftDetector(LIMITS), residuals) == []


def test_a_fall_that_stays_raises_the_alarm_again_after_the_cooldown() -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [0.0] * 20 + [-0.5] * 80) == [30, 60, 90]


def test_an_alarm_says_how_far_the_window_fell() -> None:
    detector = DriftDetector(LIMITS)
    raised = [detector.observe(each) for each in [0.0] * 20 + [-0.5] * 10]
    assert raised[-1] == QualityDrift(median=-0.5, average=0.0, samples=30)
    assert (detector.median, detector.average) == (-0.5, 0.0)


def test_nothing_is_normal_before_some_windows_were_seen() -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [0.0] * IMAGES + [-0.5] * IMAGES) == []
    assert detector.average == -0.25


def test_another_classifier_has_a_normal_of_its_own() -> None:
    detector = DriftDetector(LIMITS)
    alarms(detector, [0.0] * 30)
    detector.reset()
    assert detector.average is None
    assert alarms(detector, [-0.5] * 90) == []


def test_noise_as_of_real_estimates_raises_an_alarm_in_less_than_one_window_of_a_hundred() -> None:
    """Three images in four are right, the others have a fault; estimates are off by .35."""
    rng, limits = random.Random(0), DriftLimits()
    residuals = [
        (0.13 if rng.random() < 0.75 else -0.39) + rng.gauss(0.0, 0.35)
        for _ in range(limits.batch * limits.window * 300)
    ]
    assert len(alarms(DriftDetector(limits), residuals)) <= 3
