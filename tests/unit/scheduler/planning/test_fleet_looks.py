"""What is found of the fleet by what changed is what is found of all of it."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.boards.fleet import Stage, Warming, Worker
from scheduler.planning.replan_triggers import FleetLooks, LastingFleet, fleet_of, settled
from tests.unit.scheduler.fakes import a_worker

GIVEN = {"w0": "a", "w1": "b"}
LOADING = Warming(model="b", stage=Stage.READING, seconds=1.0)
workers = st.builds(
    replace,
    st.sampled_from([a_worker("w0", "a"), a_worker("w1", "b"), a_worker("w2", "a", "b")]),
    running=st.integers(0, 2),
    slowness=st.sampled_from([0.0, 1.0]),
    memory_gib=st.sampled_from([8.0, 16.0]),
    loading=st.sampled_from([None, LOADING]),
    load_s=st.sampled_from([{}, {"a": 3.0}]),
)
fleets = st.lists(workers, max_size=3, unique_by=lambda worker: worker.name)


@given(st.lists(fleets, max_size=6))
def test_what_lasts_is_found_again_wherever_it_changed(seen: Sequence[Sequence[Worker]]) -> None:
    looks, lasting = FleetLooks(), LastingFleet()
    for fleet in seen:
        found = lasting.look(fleet, looks.look(fleet), GIVEN)
        assert found == (fleet_of(fleet), settled(fleet, GIVEN))


def test_who_is_only_busier_changed_nothing_that_lasts() -> None:
    looks, before = FleetLooks(), [a_worker("w0", "a"), a_worker("w1", "b")]
    assert looks.look(before).is_lasting
    busier = replace(before[1], running=3, starts_read=2)
    news = looks.look([before[0], busier])
    assert (list(news.changed), news.is_lasting) == ([busier], False)
    news = looks.look([before[0], replace(busier, loading=LOADING)])
    assert news.is_lasting
