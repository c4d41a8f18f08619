from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.masking.drift import Drift, Once, full_steps


@given(begin=st.integers(0, 90), count=st.integers(0, 60), share=st.floats(0, 1))
def test_steps_in_full_are_as_many_as_asked_at_most_and_of_the_edit(begin, count, share):
    steps = range(begin, begin + count)
    found = full_steps(steps, share)
    assert found <= set(steps)
    assert len(found) <= round(share * count)


def test_steps_in_full_are_closest_where_an_edit_begins():
    found = sorted(full_steps(range(10, 60), 0.1))
    gaps = [after - before for before, after in pairwise(found)]
    assert len(found) == 5
    assert found[0] < 12
    assert gaps == sorted(gaps)


def test_what_was_learnt_at_a_step_in_full_corrects_the_recording_of_others():
    drift, learnt_at = Drift(), {"block": torch.full((2, 3), 5.0)}
    drift.learn(learnt_at)["block"] = torch.full((2, 3), 7.0)
    corrected = drift.correct({"block": torch.ones(2, 3), "other": torch.zeros(1, 1)})
    assert torch.equal(corrected["block"], torch.full((2, 3), 3.0))
    assert torch.equal(corrected["other"], torch.zeros(1, 1))


def test_nothing_is_learnt_of_a_block_that_was_not_recorded():
    drift = Drift()
    drift.learn({})["block"] = torch.ones(2, 3)
    assert not drift.offsets
    assert drift.correct({}) == {}


def test_outputs_are_restored_once_for_all_rows():
    asked = []

    class Recorded(dict):
        def __getitem__(self, name):
            asked.append(name)
            return super().__getitem__(name)

    recorded = {"a/keys": torch.ones(1), "a/values": torch.zeros(1), "b": torch.zeros(2)}
    once = Once(Recorded(recorded))
    for name in ("a/keys", "a/values", "a/keys", "a/values", "b", "b"):
        assert name in once
        assert torch.equal(once[name], recorded[name])
    assert asked == list(recorded)
