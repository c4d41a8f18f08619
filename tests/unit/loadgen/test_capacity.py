import asyncio
from dataclasses import replace
from heapq import heapreplace

import numpy as np
import pytest

from core.errors import ConfigurationError
from core.job import JobStatus
from loadgen.arrivals.gaps import poisson
from loadgen.ask import TimedRequest
from loadgen.capacity.outcome import capacity_of
from loadgen.capacity.search import LONG, MAX_TRIALS, CapacitySearch, Trial
from loadgen.capacity.trial import LiveTrials, exactly, find
from loadgen.client.follow import LongPoll
from loadgen.client.session import open_session
from loadgen.prompts import prompt_set
from loadgen.run import find_capacity
from loadgen.spec import LoadSpec
from loadgen.target import CapacityTerms, Target
from tests.unit.loadgen.service import TinyService, serving


def late_of_a_queue(rate, length_s, seed, *, servers=8, service_s=0.1, slo_s=0.4):
    """Serve Poisson arrivals in their order; count those after a warm-up of a third."""
    arrivals = exactly(poisson(rate, length_s, seed=seed), rate, length_s)
    free, late, counted = [0.0] * servers, 0, 0
    for at in arrivals.tolist():
        end = max(at, free[0]) + service_s
        heapreplace(free, end)
        counted += at > length_s / 3
        late += at > length_s / 3 and end - at > slo_s
    return Trial(rate=rate, asked=counted, late=late)


def searched(start, seed, length_s=30.0):
    search = CapacitySearch(start, max_late=0.05)
    while (rate := search.next_rate()) is not None:
        number = 1000 * seed + len(search.trials)
        search.note(late_of_a_queue(rate, search.length * length_s, number))
    return search


def slow_search():
    """Go up in small steps, five minutes of four seeds each; give where 5 % are late."""
    rates = [73.0, 74.5, 76.0, 77.5]
    late = [
        sum(late_of_a_queue(rate, 300.0, seed).share for seed in range(4)) / 4 for rate in rates
    ]
    return float(np.interp(0.05, late, rates))


def test_the_capacity_is_found_within_five_percent_of_a_slow_search():
    wanted = slow_search()
    starts = (4, 20, 160, 1200)
    found = [searched(start, seed).estimate().per_s for seed, start in enumerate(starts)]
    assert max(abs(each / wanted - 1) for each in found) < 0.05


def test_near_the_capacity_trials_are_longer():
    search = CapacitySearch(8.0, max_late=0.05)
    lengths = []
    for late in (0, 100, 0):
        lengths.append(search.length)
        search.note(Trial(rate=search.next_rate(), asked=100, late=late))
    assert lengths == [1, 1, LONG]


async def test_a_search_makes_them_so_long():
    drawn = []

    def draw(rate, number, length):
        drawn.append(length)
        return [TimedRequest(at_s=0.0, prompt="a star")]

    async with serving(TinyService()) as url, open_session(url, None) as http:
        search = CapacitySearch(5.0, max_late=0.5)
        search.trials += [Trial(rate=5.0, asked=9, late=0), Trial(rate=10.0, asked=9, late=9)]
        search.trials += [Trial(rate=5.0, asked=9, late=0)] * (MAX_TRIALS - 3)
        trials = LiveTrials(http, LongPoll(http), draw, slo_s=0.8, max_late=0.5, warm_up_s=0.0)
        await find(search, trials, lambda trial: None)
    assert drawn == [LONG]


def test_a_search_takes_few_trials():
    assert len(searched(40.0, 9).trials) <= MAX_TRIALS


def test_one_wrong_trial_is_put_right_by_the_next_ones():
    search = CapacitySearch(8.0, max_late=0.05)
    for rate, late in ((8, 0), (16, 60), (11, 60)):  # the last is wrong: 14 is kept
        search.note(Trial(rate=rate, asked=100, late=late))
    while (rate := search.next_rate()) is not None:
        search.note(Trial(rate=rate, asked=100, late=0 if rate < 14 else 60))
    assert search.estimate().per_s == pytest.approx(14, rel=0.06)


def test_a_service_that_keeps_no_rate_or_every_rate_has_no_capacity():
    for late in (0, 100):
        search = CapacitySearch(8.0, max_late=0.05)
        while (rate := search.next_rate()) is not None:
            search.note(Trial(rate=rate, asked=100, late=late))
        assert len(search.trials) == MAX_TRIALS
        assert capacity_of(search, {}, 1.0, 0.05).capacity_per_s is None
        with pytest.raises(ValueError, match="no bounds"):
            search.estimate()


def test_a_service_that_is_always_late_has_no_capacity_where_nobody_asks_it():
    search = CapacitySearch(8.0, max_late=0.05)
    while (rate := search.next_rate()) is not None:
        asked = int(10 * rate)
        search.note(Trial(rate=rate, asked=asked, late=asked))
    assert search.trials[-1].asked == 0
    assert len(search.trials) < MAX_TRIALS
    assert capacity_of(search, {}, 1.0, 0.05).capacity_per_s is None


def test_a_trial_in_which_nobody_was_asked_tells_nothing():
    search = CapacitySearch(8.0, max_late=0.05)
    for rate, late in ((8, 0), (16, 60)):
        search.note(Trial(rate=rate, asked=100, late=late))
    before = search.estimate()
    search.note(Trial(rate=1.0, asked=0, late=0))
    assert search.estimate() == before
    assert search.next_rate() == before.per_s


async def test_a_duration_that_is_too_short_to_time_a_lone_job_is_named():
    spec, terms = LoadSpec(duration_s=0.001), CapacityTerms(warm_up_s=0.0)
    async with serving(TinyService()) as url:
        with pytest.raises(ConfigurationError, match="duration: "):
            await find_capacity(
                spec, prompt_set(["a star"]), Target(url=url), terms, lambda trial: None
            )


async def test_a_trial_counts_who_is_late_after_the_warm_up():
    async with serving(TinyService()) as url, open_session(url, None) as http:
        trials = live(http, max_late=0.05, slo_s=30.0)
        trial = await trials.measure(40.0)
    assert (trial.asked, trial.late) == (20, 0)


async def test_a_trial_stops_when_it_is_decided():
    service = TinyService(holds=True)
    async with serving(service) as url, open_session(url, None) as http:
        asyncio.get_running_loop().call_later(3.5, service.released.set)
        trial = await live(http, max_late=0.05, length_s=6.0, warm_up_s=0.2).measure(40.0)
    assert trial.late > 0.05 * trial.asked
    assert trial.is_cut
    assert len(service.bodies) < 200


def half_taken_back(rate, number, length):
    """Ask for twenty at once, ten of which are taken back soon."""
    return [
        TimedRequest(at_s=0.0, prompt="a star", cancel_s=None if i % 2 else 0.05) for i in range(20)
    ]


class Onlooker:
    """Follows jobs by looking who was canceled; no other ends."""

    body = {}

    def __init__(self, service):
        self._service = service

    async def follow(self, job, within_s):
        while int(job.id) not in self._service.canceled:
            await asyncio.sleep(0.01)
        return replace(job, status=JobStatus.CANCELED)


async def test_who_takes_a_request_back_is_not_counted():
    service = TinyService(holds=True)

    async def release():
        while len(service.canceled) < 10:
            await asyncio.sleep(0.01)
        service.released.set()

    async with serving(service) as url, open_session(url, None) as http:
        terms = {"slo_s": 30.0, "max_late": 0.05, "warm_up_s": 0.0}
        trials = LiveTrials(http, LongPoll(http), half_taken_back, **terms)
        trial, _ = await asyncio.gather(trials.measure(40.0), release())
    assert (trial.asked, trial.late, trial.is_cut) == (10, 0, False)


async def test_whom_the_end_of_a_trial_takes_back_is_counted():
    service = TinyService(holds=True)
    async with serving(service) as url, open_session(url, None) as http:
        terms = {"slo_s": 4.0, "max_late": 0.05, "warm_up_s": 0.0}
        trial = await LiveTrials(http, Onlooker(service), half_taken_back, **terms).measure(40.0)
    assert len(service.canceled) == 20
    assert trial.is_cut
    assert trial.asked == 10
    assert 2.5 < trial.late <= 10


async def test_a_search_tells_of_every_trial():
    told = []
    async with serving(TinyService()) as url, open_session(url, None) as http:
        search = CapacitySearch(5.0, max_late=1.0)
        search.trials += [Trial(rate=5.0, asked=9, late=0)] * (MAX_TRIALS - 1)
        await find(search, live(http, max_late=1.0), told.append)
    assert [each.rate for each in told] == [10.0]


def live(http, *, max_late, length_s=1.0, warm_up_s=0.5, slo_s=0.8):
    def draw(rate, number, length):
        assert (number, length) == (0, 1)
        return [TimedRequest(at_s=i / rate, prompt="a star") for i in range(int(rate * length_s))]

    return LiveTrials(
        http, LongPoll(http), draw, slo_s=slo_s, max_late=max_late, warm_up_s=warm_up_s
    )


def test_a_trial_has_the_very_rate_that_it_is_made_at():
    seconds = exactly(poisson(40.0, 10.0, seed=3), 40.0, 10.0)
    assert len(seconds) != 400
    stretched_by = seconds[-1] / poisson(40.0, 10.0, seed=3)[-1]
    assert len(seconds) == pytest.approx(40.0 * 10.0 * stretched_by)
