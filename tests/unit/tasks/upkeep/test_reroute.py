from dataclasses import replace

import pytest

from core.application import Application
from core.errors import NoPlan
from core.job import OPEN, Control, Edit, Priority, Quality
from core.model import Model
from core.placement import Placement
from core.traits import can_make
from storage.fakes import MemoryApplications, MemoryJobs, MemoryStore, MemorySweeper
from tasks.upkeep.reroute import BUDGET_S, GRACE_S, Rerouter
from tests.jobs import a_request
from tests.rig import new_job

MODELS = {name: Model(name=name, family="noop") for name in ("old", "new")}
SERVED = {"gen.new"}
STAYS = 7  #: steps of a job that finds no place


class Place:
    """The scheduler's fake: always the first model that can."""

    def __init__(self, queue=None):
        self.queries, self.queue = [], queue

    async def __call__(self, queries):
        self.queries += queries
        model = queries[0].models[0]
        return [Placement(queue=self.queue or f"gen.{model}", model=model, level=f"{model}@0")]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


async def a_stray(**request):
    store = MemoryStore()
    jobs = MemoryJobs(store)
    job = new_job(model="old", **request)
    await jobs.submit([job])
    return store, jobs, job


def a_rescue(store, jobs, place, clock, models=MODELS):
    sweeper = MemorySweeper(store, max_attempts=3)
    return Rerouter(
        sweeper=sweeper,
        jobs=jobs,
        route=place,
        models=models,
        applications=MemoryApplications(store),
        clock=clock,
    )


async def test_a_job_astray_for_long_goes_where_it_is_served():
    store, jobs, job = await a_stray()
    place, clock = Place(), Clock()
    rescue = a_rescue(store, jobs, place, clock)
    assert await rescue.run(SERVED) == []
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == [job.id]
    moved = await jobs.get(job.id)
    assert moved.placement.queue == "gen.new"
    assert moved.request.model == "new"
    assert place.queries[0].models == ("new",)
    assert job.id in store.pop("gen.new")


async def test_a_job_goes_to_no_model_that_its_application_may_not_use():
    store, jobs, job = await a_stray(application="avatars")
    applications, place, clock = MemoryApplications(store), Place(), Clock()
    only = Application(name="avatars", tenant=job.tenant, models=("old",))
    await applications.add(only)
    rescue = a_rescue(store, jobs, place, clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []
    await applications.remove(job.tenant, "avatars")
    assert await rescue.run(SERVED) == [job.id]
    assert place.queries[-1].application == only.key


@pytest.mark.parametrize(
    "chosen", [{"filled": ("steps",)}, {"quality": Quality.EXACT}], ids=["by its client", "exact"]
)
async def test_a_job_that_is_to_have_its_model_waits_for_it(chosen):
    store, jobs, _ = await a_stray(**chosen)
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(), clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []


def test_what_a_client_left_open_is_as_the_new_model_does_it():
    fast = Model(name="fast", family="noop", default_steps=8, default_guidance=1.0, default_size=96)
    given = a_request(steps=50, guidance=5.0, width=64, height=64)
    assert given.on(fast) == replace(given, model="fast")
    left = replace(given, filled=OPEN)
    moved = left.on(fast)
    assert (moved.model, moved.steps, moved.guidance) == ("fast", 8, 1.0)
    assert (moved.width, moved.height) == (96, 96)
    slow = Model(name="slow", family="noop", default_steps=100)
    assert replace(left, scheduler="lcm").on(slow).steps == 50


async def test_a_queue_that_is_served_again_in_time_keeps_its_jobs():
    store, jobs, job = await a_stray()
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(), clock)
    await rescue.run(SERVED)
    await rescue.run({"gen.old"})
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []
    assert (await jobs.get(job.id)).placement.queue == "gen.old"


async def test_a_job_no_served_model_can_make_stays_where_it_is():
    small = MODELS | {"new": Model(name="new", family="noop", max_steps=3)}
    store, jobs, _ = await a_stray(steps=5)
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(), clock, small)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []


def test_a_model_of_flows_does_not_take_over_a_sampler_of_noise():
    flow = Model(name="flow", family="sd3", min_size=16)
    assert can_make(flow, a_request(scheduler="heun"))
    assert can_make(flow, a_request())
    assert not can_make(flow, a_request(scheduler="ddim"))


async def test_a_placement_nobody_serves_is_not_followed():
    store, jobs, _ = await a_stray()
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(queue="gen.elsewhere"), clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []


class SlowPlace(Place):
    """Takes its time, by a clock."""

    def __init__(self, clock, takes_s):
        super().__init__()
        self._clock, self._takes_s = clock, takes_s

    async def __call__(self, queries):
        self._clock.now += self._takes_s
        return await super().__call__(queries)


async def two_strays(takes_s=0.0):
    """A rescue, and the ids of a job and of one seen to be astray later, but listed before it."""
    store, jobs, patient = await a_stray(priority=Priority.BATCH)
    clock = Clock()
    rescue = a_rescue(store, jobs, SlowPlace(clock, takes_s), clock)
    await rescue.run(SERVED)
    urgent = new_job(model="old")
    await jobs.submit([urgent])
    clock.now = 1.0
    await rescue.run(SERVED)
    clock.now = 1.0 + GRACE_S
    return rescue, [patient.id, urgent.id]


async def test_who_has_been_astray_for_longest_moves_first():
    rescue, ids = await two_strays()
    assert await rescue.run(SERVED) == ids


async def test_moving_ends_when_its_time_is_up_and_goes_on_at_the_next_turn():
    rescue, ids = await two_strays(takes_s=2 * BUDGET_S)
    assert await rescue.run(SERVED) == ids[:1]
    assert await rescue.run(SERVED) == ids[1:]


class FullPlace(SlowPlace):
    """Has no place for some, and takes its time to say so."""

    async def __call__(self, queries):
        placed = await super().__call__(queries)
        return [NoPlan("full")] if queries[0].steps == STAYS else placed


async def test_who_finds_no_place_lets_those_behind_ask():
    store, jobs, _ = await a_stray(steps=STAYS)
    behind, clock = new_job(model="old"), Clock()
    await jobs.submit([behind])
    rescue = a_rescue(store, jobs, FullPlace(clock, 2 * BUDGET_S), clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []
    assert await rescue.run(SERVED) == [behind.id]


async def sent_to(worker):
    """An edit on a worker's own queue, a rescue of it, and its clock."""
    store = MemoryStore()
    jobs = MemoryJobs(store)
    edit = Edit(template="t/i.png", template_sha256="ab", mask="t/m.png", masked=0.2)
    job = new_job(model="old", edit=edit)
    placement = replace(job.placement, queue=f"gen.old@{worker}")
    await jobs.submit([replace(job, placement=placement)])
    return jobs, job


@pytest.mark.parametrize("served", [{"gen.old"}, {"gen.old", "gen.old@w@h"}])
async def test_what_waits_for_one_worker_is_placed_again_soon_though_that_is_there(served):
    jobs, job = await sent_to("w@h")
    clock, place = Clock(), Place(queue="gen.old@v@h")
    rescue = a_rescue(jobs.store, jobs, place, clock)
    served = served | {"gen.old@v@h", "gen.new"}
    assert await rescue.run(served) == []
    clock.now = GRACE_S
    assert await rescue.run(served) == [job.id]
    [query] = place.queries
    assert (query.models, query.is_again) == (("old",), True)
    assert [work.job for work in query.works] == [job.id]
    assert (await jobs.get(job.id)).placement.queue == "gen.old@v@h"


async def test_what_its_worker_would_still_make_first_stays_and_is_asked_about_again():
    jobs, _ = await sent_to("w@h")
    clock, place = Clock(), Place(queue="gen.old@w@h")
    rescue = a_rescue(jobs.store, jobs, place, clock)
    asked = []
    for now in (0.0, GRACE_S, 1.5 * GRACE_S, 2 * GRACE_S):
        clock.now = now
        assert await rescue.run({"gen.old", "gen.old@w@h"}) == []
        asked.append(len(place.queries))
    assert asked == [0, 1, 1, 2]


async def test_where_nobody_serves_its_model_any_more_another_takes_over():
    jobs, job = await sent_to("w@h")
    clock, place = Clock(), Place()
    rescue = a_rescue(jobs.store, jobs, place, clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == [job.id]
    assert (await jobs.get(job.id)).placement.queue == "gen.new"


def test_an_edit_goes_only_where_edits_are_made():
    edit = Edit(
        template="t/j/inputs/template.png", template_sha256="ab", mask="t/j/inputs/mask.png"
    )
    request = a_request(width=64, height=64, edit=edit)
    assert can_make(Model(name="new", family="sd3"), request)
    assert not can_make(Model(name="new", family="sketch"), request)
    assert can_make(Model(name="new", family="sketch"), a_request(width=64, height=64))


def test_a_negative_prompt_goes_only_where_it_is_read():
    flux = Model(name="new", family="flux")
    assert can_make(flux, a_request(width=64, height=64))
    assert not can_make(flux, a_request(width=64, height=64, negative_prompt="bad"))


async def test_a_job_that_controlnets_steer_stays_with_its_model():
    store, jobs, job = await a_stray(controls=(Control(controlnet="edges", image="k"),))
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(), clock)
    await rescue.run(SERVED)
    clock.now = GRACE_S
    assert await rescue.run(SERVED) == []
    assert (await jobs.get(job.id)).request.model == "old"


@pytest.mark.parametrize(
    ("request_", "models", "fate"),
    [
        ({"filled": ()}, {"new": MODELS["new"]}, "failed"),
        ({}, {"new": replace(MODELS["new"], max_size=32, min_size=32)}, "failed"),
        ({}, {"new": MODELS["new"]}, "queued"),
        ({"filled": ()}, MODELS, "queued"),
    ],
    ids=["named", "no other can", "another can", "still served"],
)
async def test_a_job_whose_model_was_removed_ends_unless_another_can_make_it(
    request_, models, fate
):
    store, jobs, job = await a_stray(**request_)
    clock = Clock()
    rescue = a_rescue(store, jobs, Place(), clock, models)
    await rescue.run(set())
    clock.now = GRACE_S
    await rescue.run(set())
    ended = await jobs.get(job.id)
    assert ended.status == fate
    if fate == "failed":
        assert ended.failure.type == "model_removed"
        assert "old was removed" in ended.failure.detail
        assert ended.is_buried
