import torch
from hypothesis import given
from hypothesis import strategies as st

from worker.masking.activations import Activations, Quantised, Recording


def a_recording(tokens, seed=0):
    recording = Recording()
    generator = torch.Generator().manual_seed(seed)
    recording.keep(0, {"block": torch.randn(tokens, 8, generator=generator)})
    return recording


@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6), tokens=st.integers(1, 9))
def test_an_output_comes_back_within_half_a_step_of_each_token(seed, scale, tokens):
    output = scale * torch.randn(tokens, 5, generator=torch.Generator().manual_seed(seed))
    back = Quantised.of(output).on(torch.device("cpu"))
    step = output.abs().amax(dim=1, keepdim=True) / 127
    assert ((back - output).abs() <= 0.501 * step).all()


def test_a_token_of_zeros_stays_zero():
    assert not Quantised.of(torch.zeros(3, 4)).on(torch.device("cpu")).any()


def test_a_step_that_was_not_recorded_has_no_outputs():
    outputs = a_recording(4).at(1, torch.device("cpu"))
    assert "block" not in outputs and not len(outputs)
    assert a_recording(4).at(0, torch.device("cpu"))["block"].shape == (4, 8)


@given(
    calls=st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 20)), max_size=40),
    budget=st.integers(0, 400),
)
def test_the_budget_holds_and_the_least_recently_used_leave_first(calls, budget):
    activations, expected = Activations(budget), {}  # in the order of use
    for is_adding, key, tokens in calls:
        if not is_adding:
            assert (activations.find(key) is not None) == (key in expected)
            if key in expected:
                expected[key] = expected.pop(key)
            continue
        recording = a_recording(tokens)
        activations.add(key, recording)
        if recording.num_bytes <= budget:
            expected.pop(key, None)
            expected[key] = recording.num_bytes
            while sum(expected.values()) > budget:
                expected.pop(next(iter(expected)))
        assert activations.num_bytes == sum(expected.values()) <= budget
