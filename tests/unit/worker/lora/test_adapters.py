"""Which samples of a batch share a call, and how each call is given its LoRAs."""

from types import SimpleNamespace

import pytest
import torch

from catalog.lora.forms import Form
from worker.lora.adapters import Adapters
from worker.lora.changes import Product, Whole
from worker.lora.mix import PLAIN, Lora, Mix

LAYER = "unet.0"


def a_short(name, **options):
    product = Product(torch.randn(2, 3), torch.randn(4, 2), 1.0)
    return Mix.of([(Lora(name, {LAYER: product}), 1.0)], **options)


def a_whole(name, **options):
    whole = Whole(Form.DIFF, {"diff": torch.randn(4, 3)}, 1.0, ())
    return Mix.of([(Lora(name, {}, {LAYER: whole}), 1.0)], **options)


def some_adapters(dtype=torch.float32):
    pipe = SimpleNamespace(unet=torch.nn.Sequential(torch.nn.Linear(3, 4, dtype=dtype)))
    return pipe.unet, Adapters(pipe, "unet")


def samples(*mixes, masked=()):
    return [
        SimpleNamespace(mix=mix, reuse=object() if at in masked else None)
        for at, mix in enumerate(mixes)
    ]


def split(adapters, batch):
    """Numbers of the samples of each call."""
    numbers = {id(sample): at for at, sample in enumerate(batch)}
    return [[numbers[id(sample)] for sample in alike] for alike in adapters.split(batch)]


def test_what_can_only_be_merged_has_a_call_of_its_own():
    _, adapters = some_adapters()
    one, other = a_whole("a"), a_whole("b", is_fixed=True)
    batch = samples(a_short("c"), one, PLAIN, other, one)
    assert split(adapters, batch) == [[0, 2], [1, 4], [3]]
    assert split(adapters, samples(one, one)) == [[0, 1]]


def test_the_first_call_of_a_step_is_what_the_weights_are_now():
    model, adapters = some_adapters()
    batch, changes = samples(a_whole("a"), PLAIN, a_short("b")), []
    given = torch.randn(1, 3)
    for _ in range(3):
        for alike in adapters.split(batch):
            adapters.apply(tuple(sample.mix for sample in alike))
            changes.append(len(alike))
            model(given.expand(len(alike), 3))
    assert changes == [2, 1, 1, 2, 2, 1]


@pytest.mark.parametrize(("dtype", "is_merged"), [(torch.float32, True), (torch.float16, False)])
def test_a_fixed_mix_is_added_row_by_row_where_a_merged_weight_would_be_rounded(dtype, is_merged):
    model, adapters = some_adapters(dtype)
    before = model[0].weight.clone()
    fixed, free = a_short("a", is_fixed=True), a_short("a")
    adapters.apply((fixed, fixed))
    assert torch.equal(model[0].weight, before) != is_merged
    adapters.apply((free, free))
    assert not torch.equal(model[0].weight, before)
    batch = samples(free, fixed, PLAIN, a_short("b", is_fixed=True), masked=(0,))
    calls = [[2], [0], [1], [3]] if is_merged else [[1, 3], [2], [0]]
    assert sorted(split(adapters, batch)) == sorted(calls)
