"""SLOs, deadlines and estimates: what a job is promised, and what it is refused for."""

import re
import time
from dataclasses import replace

import pytest

from core.boards.cost import Cost
from core.boards.fleet import QueueDepth, Worker
from scheduler.routing.model_ready import LAG_S
from scheduler.routing.model_turns import patience_s
from tests.unit.api.conftest import PLAN
from tests.unit.api.intake.test_edits import EDIT

#: 30 steps take 3.0 s alone and 12 s in a full batch.
COST = Cost(steps=((1, 0.1), (8, 0.4)), is_measured=True)
LARGE = Cost(steps=((1, 0.2), (8, 0.8)), is_measured=True)
COSTED = replace(PLAN, costs={"cpu": {"small": COST, "large": LARGE}})
WORKER = Worker(
    name="w1@h", device_type="cpu", models=("small",), queues=("gen.small",), memory_gib=1.0
)
SMALL = {"prompt": "a red circle", "model": "small"}


async def ask(client, **fields):
    return await client.post("/v1/jobs", json=SMALL | fields)


@pytest.fixture
async def served(stack, client):
    """One worker with eight slots, measured."""
    await stack.publish(COSTED)
    stack.look([WORKER])
    return client


async def test_a_deadline_that_can_be_met_is_taken(served):
    job = (await ask(served, deadline_s=3.1)).json()
    assert (job["status"], job["eta_s"]) == ("queued", 3.0)


async def test_a_deadline_that_cannot_be_met_is_refused_until_it_could_be(served, stack):
    stack.look([replace(WORKER, running=8)])
    answer = await ask(served, deadline_s=11.0)
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert "expected in 13.5 s, too late for its deadline of 11 s" in answer.json()["detail"]
    assert stack.is_untouched()
    wait_s = int(answer.headers["retry-after"])
    assert 1 <= wait_s <= 12
    stack.look([replace(WORKER, running=3)])
    assert (await ask(served, deadline_s=11.0)).status_code == 202


@pytest.mark.parametrize(("deadline_s", "status"), [(9.1, 429), (9.2, 202)])
async def test_a_deadline_that_a_full_worker_misses_leaves_room_for_who_comes_later(
    served, stack, deadline_s, status
):
    """With three others the job takes 6.86 s, alone 3 and in full company 12."""
    stack.look([replace(WORKER, running=3)])
    answer = await ask(served, deadline_s=deadline_s)
    assert answer.status_code == status
    if status == 429:
        said = answer.json()["detail"]
        assert "in 6.86 s, and later if others come, too late for its deadline of 9.1 s" in said


async def test_no_waiting_helps_where_idle_workers_are_too_slow(served, stack):
    answer = await ask(served, deadline_s=1.0)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
    assert "even an idle worker is slower" in answer.json()["detail"]
    assert (await ask(served, deadline_s=1.0, steps=5)).status_code == 202


async def test_a_batch_job_waits_for_more_than_an_interactive_one(served):
    for _ in range(12):
        await ask(served)
    for _ in range(4):
        await ask(served, priority="batch")
    first = (await ask(served, deadline_s=60)).json()
    last = (await ask(served, deadline_s=60, priority="batch")).json()
    assert (first["queue_position"], last["queue_position"]) == (12, 17)
    limit = (first["eta_s"] + last["eta_s"]) * 0.6
    assert (await ask(served, deadline_s=limit)).status_code == 202
    assert (await ask(served, deadline_s=limit, priority="batch")).status_code == 429


async def test_nobody_is_refused_on_a_guess(served, stack):
    await stack.publish(replace(COSTED, version=2, costs={}))
    assert (await ask(served, deadline_s=0.01)).status_code == 202
    stack.look([])
    assert (await ask(served, deadline_s=0.01)).status_code == 202


async def test_an_edit_is_not_refused_for_steps_that_its_mask_may_spare(served):
    job = (await served.post("/v1/jobs", json=EDIT | {"model": "small", "deadline_s": 0.5})).json()
    assert (job["status"], job["eta_s"]) == ("queued", 3.0)


async def test_a_job_that_runs_is_done_after_its_other_steps(served, stack):
    job = (await ask(served)).json()
    claim = stack.leases.claim(job["id"])
    stack.look([replace(WORKER, running=1)])
    assert claim is not None
    stack.leases.beat({job["id"]: claim.fence})
    assert (await served.get(f"/v1/jobs/{job['id']}")).json()["eta_s"] == 3.0


#: A second pass at twice the size, of half the schedule, takes two schedules more.
TWICE = ({"steps": 10, "second_pass": {"scale": 2.0}, "model": "small"}, 9.0)


@pytest.mark.parametrize(
    ("fields", "slo_s"),
    [
        ({}, 18.0),
        ({"model": "small"}, 9.0),  # who names a model is promised what that takes
        ({"steps": 10}, 6.0),
        ({"n": 2}, 3 * 30 * (2 / 7)),
        TWICE,
    ],
)
async def test_without_an_slo_a_job_is_promised_three_times_the_best_models_time(
    served, stack, fields, slo_s
):
    job = (await served.post("/v1/jobs", json={"prompt": "a red circle"} | fields)).json()
    assert job["slo_s"] == pytest.approx(slo_s)
    assert stack.scheduler.calls[-1][0].slo_s == pytest.approx(slo_s)  # who keeps it is told


async def test_the_slo_of_its_application_is_what_a_job_is_promised(served, stack):
    for name, slo_s in (("fast", 2.5), ("plain", None)):
        body = {"name": name, "models": ["small"], "slo_s": slo_s}
        await served.post("/v1/applications", json=body)
    assert (await ask(served, application="fast")).json()["slo_s"] == 2.5
    assert (await ask(served, application="plain")).json()["slo_s"] == pytest.approx(9.0)


async def test_an_application_whose_models_are_gone_is_promised_nothing(served, stack):
    await served.post("/v1/applications", json={"name": "plain"})
    kept = stack.store.applications["default/plain"]
    stack.store.applications[kept.key] = replace(kept, models=("retired",))
    answer = await ask(served, application="plain")
    assert answer.status_code == 422 and "retired" in answer.json()["detail"]
    assert stack.is_untouched()


async def test_without_a_plan_the_promise_is_that_of_the_settings(client, stack):
    assert (await ask(client)).json()["slo_s"] == stack.settings.slo_s


async def test_a_model_of_unknown_cost_is_shown_as_such(client, stack):
    stack.look([replace(WORKER, untried=("large",))])
    models = (await client.get("/v1/models")).json()["data"]
    assert {m["id"]: m["untried_on"] for m in models} == {"small": [], "large": ["cpu"]}


async def test_the_plan_shows_what_jobs_are_promised_by(served):
    costs = (await served.get("/v1/plan")).json()["costs"]
    shown = {"fixed_s": 0.0, "steps": [[1, 0.1], [8, 0.4]], "is_measured": True}
    assert costs["cpu"]["small"] == shown


#: The worker holds `small`, and could hold `large` as well, which takes 4 s to load.
TURNING = replace(
    COSTED, assignments={"w1@h": "small"}, loads={"cpu": {"small": 1.0, "large": 4.0}}
)
LARGE_JOB = {"prompt": "a red circle", "model": "large"}


@pytest.fixture
async def turning(stack, client):
    """One worker with one of two models."""
    await stack.publish(TURNING)
    stack.scheduler.plan = TURNING
    stack.look([WORKER])
    return client


async def test_a_model_that_nobody_holds_is_queued_and_its_load_is_counted(turning, stack):
    answer = await turning.post("/v1/jobs", json=LARGE_JOB)
    assert answer.status_code == 202
    job = answer.json()
    assert (job["status"], job["placement"]["queue"]) == ("queued", "gen.large")
    assert job["eta_s"] == pytest.approx(LAG_S + 4.0 + 30 * 0.2)
    exact = {"prompt": "a red circle", "quality": "exact"}
    second = (await turning.post("/v1/jobs", json=exact)).json()
    assert second["placement"]["model"] == "large"
    assert second["eta_s"] > job["eta_s"]  # it shares its steps


async def test_what_a_busy_worker_has_to_do_before_it_changes_is_counted(turning, stack):
    stack.look([replace(WORKER, running=8)])
    first = (await turning.post("/v1/jobs", json=LARGE_JOB)).json()
    assert first["eta_s"] == pytest.approx(LAG_S + 30 * 0.4 / 2 + 4.0 + 30 * 0.2)
    stack.services.depths = [QueueDepth(queue="gen.small", waiting=50, oldest_s=3.0)]
    first = (await turning.get(f"/v1/jobs/{first['id']}")).json()
    assert first["eta_s"] == pytest.approx(LAG_S + patience_s(4.0) + 4.0 + 30 * 0.2)
    no_room = replace(WORKER, running=8, memory_gib=0.1)
    stack.look([no_room])
    again = (await turning.get(f"/v1/jobs/{first['id']}")).json()
    assert again["eta_s"] == pytest.approx(first["eta_s"] + 30 * 0.4)


async def test_a_load_that_has_begun_is_counted_from_its_beginning(turning, stack):
    asked_at = time.time()
    loading = replace(
        TURNING, version=2, assignments={"w1@h": "large"}, since={"w1@h": asked_at - 3.0}
    )
    await stack.publish(loading)
    job = (await turning.post("/v1/jobs", json=LARGE_JOB)).json()
    most_s = 1.0 + 30 * 0.2
    assert max(30 * 0.2, most_s - (time.time() - asked_at)) - 0.01 <= job["eta_s"] <= most_s + 0.01


async def test_a_deadline_that_a_load_would_miss_is_refused_until_it_is_over(turning, stack):
    answer = await turning.post("/v1/jobs", json=LARGE_JOB | {"deadline_s": 8.0})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
    assert "expected in 11 s, too late for its deadline of 8 s" in answer.json()["detail"]
    assert stack.is_untouched()
    assert (await turning.post("/v1/jobs", json=LARGE_JOB | {"deadline_s": 12.5})).is_success


async def test_a_model_that_no_worker_can_hold_answers_503(turning, stack):
    stack.scheduler.plan = replace(TURNING, loads={"cpu": {"small": 1.0}})
    answer = await turning.post("/v1/jobs", json=LARGE_JOB)
    assert (answer.status_code, answer.json()["dependency"]) == (503, "worker")
    assert "no worker can hold large" in answer.json()["detail"]
    assert stack.is_untouched()


async def test_violations_are_shown_to_prometheus(client, stack):
    stack.store.stats["slo_violations"] = 3
    assert "atelier_slo_violations_total 3.0" in (await client.get("/metrics")).text


async def test_a_job_that_would_wait_too_long_is_refused_with_nothing_stored_and_counted(
    served, stack
):
    stack.scheduler.refusal = {"error": "too long", "retry_after_s": 50.2, "reason": "wait"}
    before = await refusals(served)
    answer = await ask(served)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "51")
    assert answer.json()["detail"] == "too long"
    edit = await served.post("/v1/jobs", json=EDIT | {"model": "small"})
    assert (edit.status_code, stack.is_untouched()) == (429, True)
    assert await refusals(served) == before + 2


async def refusals(client) -> float:
    found = re.search(
        r'atelier_jobs_refused_total\{reason="wait"\} ([\d.]+)', (await client.get("/metrics")).text
    )
    return float(found[1]) if found else 0.0


async def test_who_may_wait_for_how_long_is_said_with_each_job(served, stack):
    kinds = ({}, {"deadline_s": 60}, {"priority": "batch"}, {"seed": 5}, {"seed": 5})
    for fields in kinds:
        await ask(served, **fields)
    plain, deadline, batch, one, again = (call[0] for call in stack.scheduler.calls)
    assert plain.max_wait_s == pytest.approx(stack.settings.max_wait_slos * plain.slo_s)
    assert (deadline.max_wait_s, batch.max_wait_s) == (None, None)
    assert [query.is_batch for query in (plain, batch)] == [False, True]
    assert one.ticket == again.ticket != plain.ticket


async def test_models_that_were_asked_for_a_moment_ago_are_counted_before_the_next_look(
    turning, stack
):
    first = (await turning.post("/v1/jobs", json=SMALL)).json()
    assert [(d.queue, d.waiting) for d in stack.services.depths] == [("gen.small", 1)]
    job = (await turning.post("/v1/jobs", json=LARGE_JOB)).json()
    assert job["eta_s"] == pytest.approx(LAG_S + first["eta_s"] + 4.0 + 30 * 0.2)


async def test_jobs_of_a_model_that_takes_no_time_may_wait_for_a_second(stack, client):
    fast = Cost(steps=((1, 1e-5), (8, 1e-5)), is_measured=True)
    await stack.publish(replace(PLAN, costs={"cpu": {"small": fast, "large": fast}}))
    stack.look([WORKER])
    await ask(client)
    assert stack.scheduler.calls[-1][0].max_wait_s == 1.0
