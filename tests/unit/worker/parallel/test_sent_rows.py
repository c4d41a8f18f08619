import torch

from catalog.lora.forms import Form
from worker.lora.changes import Product, Whole
from worker.lora.mix import PLAIN, Lora, Mix
from worker.parallel.conditions import read
from worker.parallel.halves import Halves
from worker.parallel.sent_rows import Briefing
from worker.pipeline.packing import Packed, Packing

HALVES = Halves((0, 2), (1, 3))


class Second:
    """The other end of a link: what the second rank knows."""

    def __init__(self):
        self.calls, self.loras_sent = {}, []

    def send(self, message, tensors):
        known = [packed.mixes for packed in self.calls.values()]
        self.calls[message.number] = read(message, tensors, known)
        self.loras_sent.append([note.id for note in message.loras])
        for number in message.forgotten:
            del self.calls[number]


def a_mix(name):
    product = Product(torch.randn(2, 4), torch.randn(4, 2), 0.5)
    return Mix.of([(Lora(name, {"unet.a": product}), 0.7)])


def a_call(*mixes, time_cond=None):
    rows = torch.arange(4.0)[:, None]
    return Packed(
        samples=(),
        text=rows,
        added={"sizes": rows + 0.5},
        time_cond=time_cond,
        mixes=mixes,
    )


def test_the_second_rank_is_told_of_its_rows_alone():
    second = Second()
    a, b = a_mix("a"), a_mix("b")
    call = a_call(a, b, PLAIN, b, time_cond=torch.ones(4, 3))
    told = Briefing(second, Packing()).tell(call, HALVES)
    there = second.calls[told.number]
    assert there.text.flatten().tolist() == [1.0, 3.0]
    assert there.added["sizes"].flatten().tolist() == [1.5, 3.5]
    assert there.time_cond.shape == (2, 3)
    assert there.mixes == (b, b)
    product, own = (mix.loras[0].products["unet.a"] for mix in (there.mixes[0], b))
    assert torch.equal(product.down, own.down) and torch.equal(product.up, own.up)
    assert told.here.text.flatten().tolist() == [0.0, 2.0]
    assert second.loras_sent == [["b"]]


def test_a_call_is_told_once_and_a_lora_with_the_first_that_has_it():
    second = Second()
    a, b = a_mix("a"), a_mix("b")
    calls = [a_call(a, a, a, a), a_call(a, a, b, b)]
    briefing = Briefing(second, Packing())
    numbers = [briefing.tell(call, HALVES).number for call in calls * 3]
    assert numbers == [0, 1] * 3
    assert second.loras_sent == [["a"], ["b"]]


def test_a_call_that_is_over_is_forgotten_with_its_loras():
    second = Second()
    a = a_mix("a")
    briefing = Briefing(second, Packing())
    briefing.tell(a_call(a, a, a, a), HALVES)
    plain = a_call(PLAIN, PLAIN, PLAIN, PLAIN)
    told = briefing.tell(plain, HALVES)
    assert set(second.calls) == {told.number}
    again = a_call(a, a, a, a)
    briefing.tell(again, HALVES)
    assert second.loras_sent == [["a"], [], ["a"]]


def test_changes_of_any_form_arrive_as_they_are():
    second = Second()
    eighths = torch.randn(2, 4).to(torch.float8_e4m3fn)
    biased = Product(eighths, torch.randn(4, 2), 0.5, torch.randn(4))
    whole = Whole(Form.DIFF, {"diff": torch.randn(6, 4)}, 1.0, ((2, 6),))
    mix = Mix.of([(Lora("c", {"unet.a": biased}, {"unet.b": whole}), 0.7)])
    told = Briefing(second, Packing()).tell(a_call(mix, mix, mix, mix), HALVES)
    there = second.calls[told.number].mixes[0]
    like = torch.randn(4, 4)
    for layer in ("unet.a", "unet.b"):
        assert torch.equal(there.change(layer, like), mix.change(layer, like))
    assert torch.equal(there.bias("unet.a", like), mix.bias("unet.a", like))
    assert there.loras[0].products["unet.a"].down.dtype == torch.bfloat16, "gloo sends no eighths"
