import torch

from worker.masking.drift_correction import Drift, Once, full_steps


def test_steps_in_full_are_spread_over_the_edit_and_its_first_is_one():
    assert full_steps(range(50), 0.1) == {0, 10, 20, 30, 40}
    assert full_steps(range(3, 9), 0.25) == {3, 7}
    assert full_steps(range(2), 0.01) == {0}
    assert full_steps(range(2), 1.0) == {0, 1}
    assert full_steps(range(2), 0.0) == full_steps(range(0), 0.1) == set()


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
