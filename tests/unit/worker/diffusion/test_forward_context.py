"""Hooks are told of a call what it is given, and nothing between calls."""

from dataclasses import dataclass

import pytest
import torch
from torch.nn import Linear, Sequential

from tests.map import FILES, ROOT
from worker.diffusion.forward_context import NOTHING, ContextPart, ForwardContext, HookedModel


@dataclass(frozen=True, slots=True)
class Shift(ContextPart):
    by: float


@dataclass(frozen=True, slots=True)
class Factor(ContextPart):
    by: float


@pytest.fixture
def model():
    return Sequential(Linear(2, 2), Linear(2, 2)).requires_grad_(False)


def hook(model):
    """Have the first layer do to what it gives as the call says; note what it is told."""
    told = []

    def forward(context, whole, module, given):
        told.append((context.get(Shift), context.get(Factor)))
        made = whole(given)
        return made + context.get(Shift).by if context.get(Shift) else made

    HookedModel.of(model).hook(model[0], "test", forward)
    return told


def test_a_model_without_a_context_is_what_it_was(model):
    given = torch.ones(1, 2)
    before = model(given)
    told = hook(model)
    assert torch.equal(model(given), before)
    assert told == [(None, None)]


def test_a_call_is_told_what_it_is_given_and_the_next_one_is_not(model):
    told, given = hook(model), torch.ones(1, 2)
    plain = model(given)
    with HookedModel.of(model).running(ForwardContext(Shift(1.0))):
        assert not torch.equal(model(given), plain)
    assert torch.equal(model(given), plain)
    assert told == [(None, None), (Shift(1.0), None), (None, None)]


def test_a_call_that_fails_leaves_nothing_behind(model):
    with pytest.raises(MemoryError), HookedModel.of(model).running(ForwardContext(Shift(1.0))):
        raise MemoryError
    assert HookedModel.of(model).context is NOTHING


def test_a_call_within_a_call_knows_what_that_one_knows_but_for_what_it_is_told_itself(model):
    told, hooked = hook(model), HookedModel.of(model)
    with hooked.running(ForwardContext(Shift(1.0), Factor(2.0))):
        with hooked.running(ForwardContext(Shift(3.0))):
            model(torch.ones(1, 2))
        model(torch.ones(1, 2))
    assert told == [(Shift(3.0), Factor(2.0)), (Shift(1.0), Factor(2.0))]


def test_two_models_are_told_apart(model):
    other = Sequential(Linear(2, 2), Linear(2, 2)).requires_grad_(False)
    told, told_other = hook(model), hook(other)
    with HookedModel.of(model).running(ForwardContext(Shift(1.0))):
        model(torch.ones(1, 2))
        other(torch.ones(1, 2))
    assert told == [(Shift(1.0), None)]
    assert told_other == [(None, None)]


def test_weights_and_names_of_a_hooked_model_stay(model):
    names = list(model.state_dict())
    hook(model)
    assert list(model.state_dict()) == names


def test_no_file_hooks_a_block_that_could_keep_something_of_a_call():
    """Others that hook forward passes past the context give what comes back as it is.

    Or row by row, of a ControlNet Union whose layer is no part of a model that images share.
    """
    ours = [path for path in FILES if path.parts[0] != "bench"]  # it hooks stock models as well
    hooking = [path for path in ours if "hook_forward(" in (ROOT / path).read_text()]
    told = {"worker/diffusion/stock.py", "worker/diffusion/forward_context.py"}
    as_it_is = {str(path) for path in hooking} - told
    lines = [line for path in as_it_is for line in (ROOT / path).read_text().splitlines()]
    hooks = [line for line in lines if "hook_forward(" in line]
    assert all(any(f"{name})" in line for name in ("as_it_is", "_alone")) for line in hooks)
