import pytest
import torch

from worker.masking.activation_prefetch import InMemory
from worker.masking.blocks.rows import MaskedRow, put
from worker.masking.drift_correction import Drift, Once, full_steps
from worker.masking.quantised import Quantised


def test_steps_in_full_are_spread_over_the_edit_and_its_first_is_one():
    assert full_steps(range(50), 0.1) == {0, 10, 20, 30, 40}
    assert full_steps(range(3, 9), 0.25) == {3, 7}
    assert full_steps(range(2), 0.01) == {0}
    assert full_steps(range(2), 1.0) == {0, 1}
    assert full_steps(range(2), 0.0) == full_steps(range(0), 0.1) == set()


def quantised(**outputs):
    return InMemory({name: Quantised.of(output) for name, output in outputs.items()})


def a_row(cached):
    return MaskedRow(cells=torch.ones(2, 2), dilate=0, cached=cached)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_learnt_at_a_step_in_full_corrects_the_recording_of_others(dtype):
    drift, learnt_at = Drift(1), quantised(block=torch.full((2, 3), 5.0))
    learnt = drift.learn(learnt_at, 0)
    for step in (9.0, 7.0):
        learnt["block"] = torch.full((2, 3), step, dtype=dtype)
        torch.testing.assert_close(learnt["block"], torch.full((2, 3), step))
    assert drift.offsets["block"].dtype == dtype
    corrected = drift.correct(quantised(block=torch.ones(2, 3), other=torch.zeros(1, 1)), 0)
    for name, expected in {"block": torch.full((2, 3), 3.0), "other": torch.zeros(1, 1)}.items():
        torch.testing.assert_close(corrected[name], expected)
        into = torch.full((1, *expected.shape), torch.nan, dtype=dtype)
        put([a_row(corrected)], name, into)
        torch.testing.assert_close(into[0], expected.to(dtype))


def test_nothing_is_learnt_of_a_block_that_was_not_recorded():
    drift = Drift(1)
    drift.learn(quantised(), 0)["block"] = torch.ones(2, 3)
    assert not drift.offsets
    assert drift.correct(quantised(), 0) == {}


def test_rows_of_which_nothing_was_learnt_are_the_template():
    drift, template = Drift(2), quantised(caption=torch.ones(2, 3))
    drift.learn(template, 0)["caption"] = torch.full((2, 3), 3.0)
    first, second = (drift.correct(template, row)["caption"] for row in range(2))
    torch.testing.assert_close(first, torch.full((2, 3), 3.0))
    assert torch.equal(second, template["caption"])


def test_rows_of_one_edit_are_put_in_one_pass_and_each_as_alone():
    passes, outputs = [], torch.randn(2, 4, 3)

    class Recorded(InMemory):
        def quantised(self, name):
            passes.append(name)
            return super().quantised(name)

    templates = [Recorded({"block": Quantised.of(output)}) for output in outputs]
    drifts = [Drift(2), Drift(2)]
    for drift in drifts:
        for row in range(2):
            drift.learn(templates[0], row)["block"] = torch.randn(4, 3)
    corrected = [
        drift.correct(template, row)
        for drift, template in [(drifts[0], templates[0]), *zip(drifts, templates, strict=True)]
        for row in range(2)
    ]
    plain = {"block": outputs[0]}
    cached = [templates[0], templates[0], templates[1], plain, *corrected, corrected[5], plain]
    passes.clear()
    put([a_row(each) for each in cached], "block", into := torch.empty(len(cached), 4, 3))
    assert len(passes) == 2 + 3 + 1
    for each, own in zip(cached, into, strict=True):
        torch.testing.assert_close(own, each["block"])


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
