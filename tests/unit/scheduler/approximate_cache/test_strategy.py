"""The laws of the switch: it leaves at once, comes back for good, and never flaps."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.boards.plan import Strategy, Switch
from scheduler.approximate_cache.strategy import Dependency, StrategySwitch, SwitchRules

RULES = SwitchRules()
INDEX, STORE = Dependency.INDEX, Dependency.STORE


class Machine:
    """A switch and its clock: a second passes with each `tick`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.switch = StrategySwitch()
        self.switches: list[Switch] = []

    def tick(self, *, good: int = 0, bad: int = 0, whom: Dependency | None = None) -> None:
        self.now += 1.0
        for each in [whom] if whom else Dependency:
            self.switch.see(each, good=good, bad=bad, now=self.now)
        if (switch := self.switch.turn(self.now, is_settled=True)) is not None:
            self.switches.append(switch)

    def ticks(self, count: float, **seen: int) -> None:
        for _ in range(int(count)):
            self.tick(**seen)  # type: ignore[arg-type]

    @property
    def strategy(self) -> Strategy:
        return self.switch.strategy


def test_latents_are_allowed_until_something_was_seen() -> None:
    machine = Machine()
    machine.ticks(100)
    assert machine.strategy is Strategy.AC
    assert machine.switches == []


@pytest.mark.parametrize("whom", Dependency)
def test_they_are_withdrawn_at_once_when_one_dependency_fails(whom: Dependency) -> None:
    machine = Machine()
    machine.ticks(60, good=2)
    for _ in range(5):
        machine.tick(bad=4, whom=whom)
    assert machine.strategy is Strategy.SM
    assert machine.switches[-1].cause.startswith(f"{whom}: ")


def test_without_traffic_before_it_takes_as_few_answers_as_say_something() -> None:
    machine = Machine()
    machine.tick(bad=RULES.min_answers - 1, whom=STORE)
    assert machine.strategy is Strategy.AC
    machine.tick(bad=1, whom=STORE)
    assert machine.strategy is Strategy.SM


def test_what_was_seen_long_ago_does_not_count() -> None:
    machine = Machine()
    for _ in range(10):
        machine.tick(bad=1, whom=STORE)
        machine.ticks(RULES.memory_s)
    assert machine.strategy is Strategy.AC


def test_they_come_back_after_a_hold_of_good_answers_and_not_without_any() -> None:
    machine = Machine()
    machine.tick(bad=9)
    machine.ticks(10 * RULES.hold_s)
    assert machine.strategy is Strategy.SM
    machine.ticks(RULES.hold_s, good=1)
    assert machine.strategy is Strategy.AC
    assert "in time" in machine.switches[-1].cause


def test_one_of_the_two_that_stays_silent_keeps_them_away() -> None:
    machine = Machine()
    machine.tick(bad=9)
    for _ in range(100):
        machine.tick(good=1, whom=INDEX)
    assert machine.strategy is Strategy.SM


def test_a_single_late_probe_does_not_keep_them_away() -> None:
    machine = Machine()
    machine.tick(bad=9)
    machine.ticks(8, good=2)
    machine.tick(bad=1, whom=STORE)
    machine.ticks(3, good=2)
    assert machine.strategy is Strategy.AC


def test_a_return_that_does_not_last_doubles_the_wait_and_one_that_lasts_makes_it_short() -> None:
    machine = Machine()
    waits = []
    for _ in range(4):
        machine.ticks(5, bad=9)
        left = machine.now
        while machine.strategy is Strategy.SM:
            machine.tick(good=1)
        waits.append(machine.now - left)
    assert all(later > 1.5 * sooner for sooner, later in pairwise(waits))
    machine.ticks(RULES.lasting_holds * RULES.max_hold_s, good=1)
    machine.tick(bad=20)
    machine.ticks(RULES.hold_s + 1, good=1)
    assert machine.strategy is Strategy.AC


def test_the_margin_lasts_while_models_load_and_no_longer() -> None:
    switch = StrategySwitch()
    assert switch.margin == 1.0
    switch.see(STORE, bad=9, now=0.0)
    switch.turn(0.0, is_settled=True)  # as it was under the plan before
    assert switch.margin == RULES.margin
    switch.turn(1.0, is_settled=False)
    assert switch.margin == RULES.margin
    switch.turn(2.0, is_settled=True)
    assert switch.margin == 1.0


def test_a_model_that_never_loads_does_not_keep_the_margin() -> None:
    switch = StrategySwitch()
    switch.see(STORE, bad=9, now=0.0)
    for second in range(int(RULES.max_loading_s) + 2):
        switch.turn(float(second), is_settled=False)
    assert switch.margin == 1.0


def test_after_a_restart_it_goes_on_where_it_stood() -> None:
    switch = StrategySwitch()
    switch.resume(Switch(to=Strategy.SM, at=500.0, cause="store"))
    assert not switch.allows_latents
    assert switch.turn(1000.0, is_settled=True) is None  # nothing was seen yet
    switch.resume(None)
    assert switch.allows_latents


seconds = st.lists(st.tuples(st.sampled_from(Dependency), st.integers(0, 4), st.integers(0, 4)))


def play(machine: Machine, seen: Sequence[tuple[Dependency, int, int]]) -> None:
    for whom, good, bad in seen:
        machine.tick(good=good, bad=bad, whom=whom)


@given(seconds)
@settings(max_examples=40)
def test_whatever_happened_it_ends_in_ac_once_all_is_well_for_long(
    seen: list[tuple[Dependency, int, int]],
) -> None:
    machine = Machine()
    play(machine, seen)
    machine.ticks(RULES.memory_s + RULES.max_hold_s, good=1)
    assert machine.strategy is Strategy.AC


@given(seconds)
@settings(max_examples=40)
def test_whatever_happened_it_ends_in_sm_once_nothing_answers(
    seen: list[tuple[Dependency, int, int]],
) -> None:
    machine = Machine()
    play(machine, seen)
    machine.ticks(RULES.memory, bad=1)
    assert machine.strategy is Strategy.SM


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30)), min_size=1, max_size=60))
def test_it_never_flaps(weather: list[tuple[bool, int]]) -> None:
    """Back at the earliest after a hold, and each return that fails soon doubles the next hold."""
    machine = Machine()
    for is_fair, lasts_s in weather:
        machine.ticks(lasts_s, **({"good": 2} if is_fair else {"bad": 2}))
    pairs = list(pairwise(machine.switches))
    holds = [later.at - at.at for at, later in pairs if at.to is Strategy.SM]
    assert all(hold >= RULES.hold_s for hold in holds)
    stays = [later.at - at.at for at, later in pairs if at.to is Strategy.AC]
    hold = RULES.hold_s
    for held, stayed in zip(holds[1:], stays, strict=False):
        lasted = stayed >= RULES.lasting_holds * hold
        hold = RULES.hold_s if lasted else min(2 * hold, RULES.max_hold_s)
        assert held >= hold


@given(st.lists(st.integers(0, 9), min_size=30, max_size=200))
def test_now_and_then_a_late_answer_changes_nothing(lates: list[int]) -> None:
    machine = Machine()
    machine.ticks(10, good=2)
    for late in lates:
        machine.tick(good=2)
        if late == 0:
            machine.tick(good=2, bad=1)
    assert machine.switches == []
