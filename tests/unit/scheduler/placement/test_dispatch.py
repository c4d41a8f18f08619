from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from bench.parts.edit_scores import requests, tokens
from core.boards.fleet import FleetChange, Worker
from core.boards.image_work import ImageWork
from core.placement import Placement, own_queue_of
from scheduler.placement.dispatch import Dispatcher, pipeline
from scheduler.placement.step_cost import StepCosts, Tier
from scheduler.placement.worker_batches import SETTLE_S, Batch, Batches, BatchImage, EditOffer

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
        self.batches.hear(FleetChange(workers=workers), 0.0)

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
    house.batches.hear(FleetChange(workers=again), 1.0)
    for _, offer in (found := house.batches.offers("gen.m", [work("x")], 1.0)):
        assert found[0][0].pipeline_s(offer, 1.0) == approx(10 * (1.0 + 1.0 + 0.1))


def test_what_no_report_tells_of_for_long_has_ended():
    house = House(worker("a@h"), worker("b@h", work("1", steps=1)))
    assert house.send() == "a@h"
    late = worker("a@h", beat_at=2.0), worker("b@h", work("1", steps=1), beat_at=2.0)
    house.batches.hear(FleetChange(workers=late), SETTLE_S)
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
    assert house.send(now=STALE_S + 0.1) is None, "nobody has heard of anything for so long"
    house.batches.hear(FleetChange(gone=["a@h", "unheard-of@h"]), STALE_S + 0.1)
    assert house.send(now=STALE_S + 0.1) is None
    house.batches.hear(FleetChange(workers=[worker("a@h")]), STALE_S + 0.2)
    assert house.send(now=STALE_S + 0.2) == "a@h"
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


def test_what_was_sent_to_a_worker_that_says_nothing_new_has_ended_after_a_while():
    house = House(worker("a@h"), worker("b@h", work("1", steps=1)))
    assert house.send("x") == "a@h"
    assert house.send("y", now=SETTLE_S - 0.1) == "b@h"
    house.batches.hear(FleetChange(), SETTLE_S)
    assert house.send("z", now=SETTLE_S) == "a@h"


def test_in_a_large_fleet_some_are_looked_at_in_turn_and_all_that_have_the_template():
    idle = [worker(f"{n:02}@h") for n in range(20)]
    idle[17] = replace(idle[17], recordings=("r",))
    idle[3] = replace(idle[3], shelved=("r",))
    batches = Batches(lambda model, device: COSTS, stale_s=STALE_S, most=8)  # one of a tier
    batches.hear(FleetChange(workers=idle), 0.0)
    seen = [
        {batch.worker.name for batch, _ in batches.offers("gen.m", [work(recording="s")], 0.0)}
        for _ in range(5)
    ]
    assert all(len(names) == 4 for names in seen)
    assert set.union(*seen) == {each.name for each in idle}
    for _ in range(6):
        found = batches.offers("gen.m", [work(recording="r")], 0.0)
        assert {"03@h", "17@h"} <= {batch.worker.name for batch, _ in found}
    batches.hear(FleetChange(workers=[replace(idle[3], shelved=())], gone=["17@h"]), 1.0)
    for _ in range(6):
        found = batches.offers("gen.m", [work(recording="r")], 1.0)
        assert all(offer.tier is Tier.NOWHERE for _, offer in found)


class LinearScan:
    """Algorithm 2 as it is written: all workers are looked at, by all that is known of each."""

    def __init__(self):
        self.reports, self.sent, self.seen_at, self.sent_at = {}, {}, {}, {}

    def hear(self, change, now):
        for name in change.gone:
            for known in (self.reports, self.sent, self.seen_at, self.sent_at):
                known.pop(name, None)
        for each in change.workers:
            seen = {mine.job for mine in each.works}
            sent = self.sent.get(each.name, {})
            self.reports[each.name], self.seen_at[each.name] = each, now
            self.sent[each.name] = {job: it for job, it in sent.items() if job not in seen}

    def forget(self, job):
        for name, each in self.reports.items():
            kept = tuple(mine for mine in each.works if mine.job != job)
            self.reports[name] = replace(each, works=kept)
            self.sent[name].pop(job, None)

    def send(self, edit, now):
        found = {}
        for name, each in self.reports.items():
            if own_queue_of("gen.m", name) not in each.queues:
                continue
            batch = Batch(worker=each, seen_at=self.seen_at[name])
            batch.in_memory, batch.on_disk = frozenset(each.recordings), frozenset(each.shelved)
            batch.report(self.task(batch, mine) for mine in each.works)
            batch.sent = {job: it for job, it in self.sent[name].items() if now - it[0] < SETTLE_S}
            tier = batch.tier(edit.recording)
            offer = EditOffer.of((self.task(batch, edit),), COSTS, tier)
            score = round(batch.pipeline_s(offer, now), 6)
            found[name] = (score, tier, self.sent_at.get(name, 0.0), name), offer
        if not found:
            return None
        best = min(found, key=lambda name: found[name][0])
        self.sent[best][edit.job] = (now, found[best][1].tasks)
        self.sent_at[best] = now
        return best

    @staticmethod
    def task(batch, mine):
        return BatchImage.of(mine, COSTS.burden(mine, batch.tier(mine.recording)))


names = st.sampled_from([f"{n}@h" for n in range(6)])
jobs = st.sampled_from([f"j{n}" for n in range(12)])
recordings = st.sampled_from(["r", "s", "t"])
reports = st.builds(
    lambda name, made, memory, disk, is_own: replace(
        worker(name, *made, memory=tuple(memory), disk=tuple(disk)),
        queues=("gen.m", own_queue_of("gen.m", name)) if is_own else ("gen.m",),
    ),
    names,
    st.lists(
        st.builds(
            lambda job, steps, masked, recording: work(
                job, steps=steps, masked=masked, recording=recording
            ),
            st.sampled_from([f"k{n}" for n in range(9)]),
            st.integers(1, 50),
            st.sampled_from([0.1, 0.9]),
            recordings,
        ),
        max_size=4,
        unique_by=lambda made: made.job,
    ),
    st.sets(recordings, max_size=2),
    st.sets(recordings, max_size=2),
    st.sampled_from([True, True, True, False]),
)
happenings = st.one_of(
    reports,
    st.tuples(st.just("gone"), names),
    st.tuples(st.just("again"), jobs),
    st.tuples(st.just("pass"), st.floats(0.1, 2.0)),
    st.tuples(st.just("edit"), jobs, st.integers(1, 50), recordings),
)


@given(st.lists(happenings, max_size=40))
def test_in_a_small_fleet_the_choice_is_that_of_a_scan_of_all_workers(happens):
    batches, scan, now = Batches(lambda model, device: COSTS, stale_s=1e9), LinearScan(), 0.0
    dispatcher = Dispatcher(batches)
    for each in happens:
        match each:
            case Worker():
                others = {
                    mine.job
                    for name, known in scan.reports.items()
                    if name != each.name
                    for mine in (*known.works,)
                }
                each = replace(each, works=tuple(w for w in each.works if w.job not in others))
                for known in (batches, scan):
                    known.hear(FleetChange(workers=[each]), now)
            case "gone", name:
                for known in (batches, scan):
                    known.hear(FleetChange(gone=[name]), now)
            case "again", job:
                dispatcher.forget([work(job)])
                scan.forget(job)
            case "pass", seconds:
                now += seconds
            case "edit", job, steps, recording:
                edit = work(job, steps=steps, masked=0.2, recording=recording)
                dispatcher.forget([edit])
                scan.forget(job)
                expected = scan.send(edit, now)
                queue = dispatcher.dispatch(PLACED, [edit], now)
                assert (queue and queue.partition("@")[2]) == expected
