import pytest
import torch

from worker.masking.activation_prefetch import InMemory
from worker.masking.blocks.rows import put
from worker.masking.drift_correction import Drift, Once, full_steps
from worker.masking.recording import Quantised


def test_steps_in_full_are_spread_over_the_edit_and_its_first_is_one():
    assert full_steps(range(50), 0.1) == {0, 10, 20, 30, 40}
    assert full_steps(range(3, 9), 0.25) == {3, 7}
    assert full_steps(range(2), 0.01) == {0}
    assert full_steps(range(2), 1.0) == {0, 1}
    assert full_steps(range(2), 0.0) == full_steps(range(0), 0.1) == set()


def quantised(**outputs):
    return InMemory({name: Quantised.of(output) for name, output in outputs.items()})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_learnt_at_a_step_in_full_corrects_the_recording_of_others(dtype):
    drift, learnt_at = Drift(), quantised(block=torch.full((2, 3), 5.0))
    learnt = drift.learn(learnt_at)
    learnt["block"] = torch.full((2, 3), 7.0, dtype=dtype)
    assert drift.offsets["block"].dtype == dtype
    torch.testing.assert_close(learnt["block"], torch.full((2, 3), 7.0))
    corrected = drift.correct(quantised(block=torch.ones(2, 3), other=torch.zeros(1, 1)))
    for name, expected in {"block": torch.full((2, 3), 3.0), "other": torch.zeros(1, 1)}.items():
        torch.testing.assert_close(corrected[name], expected)
        put(corrected, name, into := torch.full_like(expected, torch.nan, dtype=dtype))
        torch.testing.assert_close(into, expected.to(dtype))


def test_outputs_are_put_where_they_are_wanted_in_the_precision_there():
    output, into = torch.randn(4, 3), torch.empty(2, 4, 3, dtype=torch.bfloat16)
    recorded = quantised(block=output)
    put(recorded, "block", into[1])
    assert torch.equal(into[1], recorded["block"].bfloat16())
    put({"block": output}, "block", into[0])
    assert torch.equal(into[0], output.bfloat16())


def test_nothing_is_learnt_of_a_block_that_was_not_recorded():
    drift = Drift()
    drift.learn({})["block"] = torch.ones(2, 3)
    assert not drift.offsets
    assert drift.correct({}) == {}


def test_outputs_arrive_and_are_restored_once_for_all_rows():
    asked = []

    class Recorded(InMemory):
        def quantised(self, name):
            asked.append(name)
            return super().quantised(name)

    ones = {name: Quantised.of(torch.ones(1, 1)) for name in ("a/keys", "a/values", "b")}
    once, recorded = Once(Recorded(ones)), InMemory(ones)
    for name in ("a/keys", "a/values", "a/keys", "a/values", "b", "b"):
        assert name in once
        assert torch.equal(once[name], recorded[name])
        assert once[name] is once[name]
        assert once.quantised(name) is ones[name]
    assert asked == list(ones)
