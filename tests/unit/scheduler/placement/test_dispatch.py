from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from bench.parts.edit_scores import requests, tokens
from core.boards.fleet import Worker
from core.boards.image_work import ImageWork
from core.placement import Placement, own_queue_of
from scheduler.placement.dispatch import Dispatcher, pipeline
from scheduler.placement.step_cost import StepCosts
from scheduler.placement.worker_batches import SETTLE_S, Batches

PLACED = Placement(queue="gen.m", model="m", level="m@0")
COSTS = StepCosts(start_s=0.1, row_s=0.5, pixels=100)
STALE_S = 4.0


def work(job="j", *, steps=10, masked=1.0, rows=2, recording="", model="m"):
    return ImageWork(
        job=job,
        model=model,
        steps=steps,
        rows=rows,
        pixels=100,
        masked=masked,
        recording=recording,
    )


def worker(name, *works, memory=(), disk=(), beat_at=1.0):
    return Worker(
        name=name,
        device_type="cpu",
        models=("m",),
        queues=("gen.m", own_queue_of("gen.m", name)),
        memory_gib=1.0,
        works=works,
        recordings=memory,
        shelved=disk,
        beat_at=beat_at,
    )


class House:
    """A dispatcher that was told of some workers at time 0."""

    def __init__(self, *workers, score=pipeline):
        self.batches = Batches(lambda model, device: COSTS, stale_s=STALE_S)
        self.dispatcher = Dispatcher(self.batches, score)
        self.batches.see(workers, 0.0)

    def send(self, job="new", now=0.0, **changes):
        queue = self.dispatcher.dispatch(PLACED, [work(job, **changes)], now)
        return queue and queue.partition("@")[2]


def test_an_edit_goes_where_the_batch_with_it_is_done_first():
    house = House(worker("a@h", work("1"), work("2")), worker("b@h", work("3", steps=19)))
    assert house.send(steps=20) == "b@h"


def test_steps_that_others_take_after_an_edit_is_done_do_not_count():
    house = House(worker("a@h", work("1", steps=50)), worker("b@h", work("2"), work("3")))
    assert house.send(steps=5) == "a@h"


def test_what_was_just_sent_counts_until_a_report_tells_of_it():
    house = House(worker("a@h"), worker("b@h"))
    assert {house.send(str(i)) for i in range(2)} == {"a@h", "b@h"}
    again = worker("a@h", work("0"), beat_at=2.0), worker("b@h", work("1"), beat_at=2.0)
    house.batches.see(again, 1.0)
    for _, offer in (found := house.batches.offers("gen.m", [work("x")], 1.0)):
        assert found[0][0].pipeline_s(offer, 1.0) == approx(10 * (1.0 + 1.0 + 0.1))


def test_what_no_report_tells_of_for_long_has_ended():
    house = House(worker("a@h"), worker("b@h", work("1", steps=1)))
    assert house.send() == "a@h"
    late = worker("a@h", beat_at=2.0), worker("b@h", work("1", steps=1), beat_at=2.0)
    house.batches.see(late, SETTLE_S)
    assert house.send(now=SETTLE_S) == "a@h"


def test_a_second_passes_for_what_was_reported():
    house = House(worker("a@h", work("1", steps=4)), worker("b@h", work("2", steps=4)))
    house.send("x", now=0.0)  # to a
    busy, idle = (batch for batch, _ in house.batches.offers("gen.m", [work("y")], 2.0))
    [(_, offer), _] = house.batches.offers("gen.m", [work("y")], 2.0)
    assert idle.pipeline_s(offer, 2.0) == approx(4 - 2 + 10 * 1.1)
    assert busy.pipeline_s(offer, 2.0) == approx(4 - 2 + 10 + 10 * 1.1)


def test_a_template_at_hand_outweighs_a_batch_that_is_little_longer():
    warm, cold = worker("a@h", work("1", steps=4), memory=("r",)), worker("b@h")
    assert House(warm, cold).send(masked=0.1, recording="r") == "a@h"
    busy = replace(warm, works=(work("1", steps=10), work("2", steps=10)))
    assert House(busy, cold).send(masked=0.1, recording="r") == "b@h"


def test_ties_go_to_the_warmest_cache():
    house = House(worker("a@h"), worker("b@h", disk=("r",)), worker("c@h", memory=("r",)))
    assert house.send(masked=0.9, recording="r") == "c@h"


def test_fewest_requests_and_fewest_tokens_do_as_they_are_called():
    few_large = worker("a@h", work("1", steps=40, masked=0.9))
    many_small = worker("b@h", work("2", masked=0.1), work("3", masked=0.1))
    assert House(few_large, many_small, score=requests).send() == "a@h"
    assert House(few_large, many_small, score=tokens).send() == "b@h"


def test_whoever_is_silent_or_serves_no_queue_of_its_own_is_sent_nothing():
    house = House(worker("a@h"))
    assert house.send(now=STALE_S) == "a@h"
    assert house.send(now=STALE_S + 0.1) is None
    house.batches.see([worker("a@h")], STALE_S + 0.1)  # the same beat
    assert house.send(now=STALE_S + 0.1) is None
    assert House(replace(worker("a@h"), queues=("gen.m",))).send() is None
    assert House(replace(worker("a@h"), queues=("gen.n", "gen.n@a@h"))).send() is None
    assert House(worker("a@h")).send(model="other") is None


def test_what_is_placed_again_is_counted_once():
    mine = work("mine", steps=30)
    house = House(worker("a@h", mine), worker("b@h", work("1", steps=15)))
    house.dispatcher.forget([mine])
    assert house.send("mine", steps=30) == "a@h"
    house.dispatcher.forget([mine])
    assert house.send("mine", steps=30) == "a@h"


@given(
    loads=st.lists(st.lists(st.integers(1, 50), max_size=6), min_size=1, max_size=6),
    count=st.integers(1, 12),
)
def test_nobody_is_sent_an_edit_while_another_would_be_done_with_it_sooner(loads, count):
    house = House(
        *(
            worker(f"{n}@h", *(work(f"{n}.{i}", steps=s) for i, s in enumerate(steps)))
            for n, steps in enumerate(loads)
        )
    )
    for number in range(count):
        offers = house.batches.offers("gen.m", [work(str(number))], 0.0)
        expected = {b.worker.name: b.pipeline_s(offer, 0.0) for b, offer in offers}
        assert expected[house.send(str(number))] == approx(min(expected.values()))
