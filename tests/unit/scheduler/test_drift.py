import random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.drift import MIN_WINDOWS, Drift, DriftDetector, Limits

LIMITS = Limits(window=5, margin=0.1, memory=4, cooldown=2)
MARGIN = LIMITS.margin

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
    st.lists(noise, min_size=MIN_WINDOWS * LIMITS.window, max_size=100),
    st.floats(3.01 * MARGIN, 1.0),
    st.lists(noise, min_size=2 * LIMITS.window, max_size=2 * LIMITS.window),
)
def test_a_fall_raises_an_alarm_within_two_windows(
    level: float, before: list[float], fall: float, after: list[float]
) -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [level + each for each in before]) == []
    assert alarms(detector, [level - fall + each for each in after])


@given(levels, st.floats(3.01 * MARGIN, 1.0))
def test_a_rise_raises_none(level: float, rise: float) -> None:
    residuals = [level] * 20 + [level + rise] * 50
    assert alarms(DriftDetector(LIMITS), residuals) == []


def test_a_fall_that_stays_raises_the_alarm_again_after_the_cooldown() -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [0.0] * 10 + [-0.5] * 40) == [15, 30, 45]


def test_an_alarm_says_how_far_the_window_fell() -> None:
    detector = DriftDetector(LIMITS)
    raised = [detector.observe(each) for each in [0.0] * 10 + [-0.5] * 5]
    assert raised[-1] == Drift(median=-0.5, average=0.0, samples=15)
    assert (detector.median, detector.average) == (-0.5, 0.0)


def test_nothing_is_normal_before_some_windows_were_seen() -> None:
    detector = DriftDetector(LIMITS)
    assert alarms(detector, [0.0] * LIMITS.window + [-0.5] * LIMITS.window) == []
    assert detector.average == -0.25


def test_another_classifier_has_a_normal_of_its_own() -> None:
    detector = DriftDetector(LIMITS)
    alarms(detector, [0.0] * 15)
    detector.reset()
    assert detector.average is None
    assert alarms(detector, [-0.5] * 50) == []


def test_noise_as_of_real_scores_raises_an_alarm_in_less_than_one_window_of_a_hundred() -> None:
    """Residuals of single images deviate by .2; so the median of 200 deviates by .018."""
    rng, detector = random.Random(0), DriftDetector()
    residuals = [rng.gauss(0.0, 0.2) for _ in range(Limits().window * 300)]
    assert len(alarms(detector, residuals)) <= 3
