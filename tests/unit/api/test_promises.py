"""SLOs, deadlines and estimates: what a job is promised, and what it is refused for."""

from dataclasses import replace

import pytest

from core.cost import Cost
from core.fleet import Worker
from tests.unit.api.conftest import PLAN
from tests.unit.api.test_edits import EDIT

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
    stack.services.fleet = [WORKER]
    return client


async def test_a_deadline_that_can_be_met_is_taken(served):
    job = (await ask(served, deadline_s=3.1)).json()
    assert (job["status"], job["eta_s"]) == ("queued", 3.0)


async def test_a_deadline_that_cannot_be_met_is_refused_until_it_could_be(served, stack):
    stack.services.fleet = [replace(WORKER, running=8)]
    answer = await ask(served, deadline_s=11.0)
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/problem+json"
    assert "expected in 13.5 s, too late for its deadline of 11 s" in answer.json()["detail"]
    assert stack.is_untouched()
    wait_s = int(answer.headers["retry-after"])
    assert 1 <= wait_s <= 12
    stack.services.fleet = [replace(WORKER, running=4)]
    assert (await ask(served, deadline_s=11.0)).status_code == 202


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
    stack.services.fleet = []
    assert (await ask(served, deadline_s=0.01)).status_code == 202


async def test_an_edit_is_not_refused_for_steps_that_its_mask_may_spare(served):
    job = (await served.post("/v1/jobs", json=EDIT | {"model": "small", "deadline_s": 0.5})).json()
    assert (job["status"], job["eta_s"]) == ("queued", 3.0)


async def test_a_job_that_runs_is_done_after_its_other_steps(served, stack):
    job = (await ask(served)).json()
    claim = stack.leases.claim(job["id"])
    stack.services.fleet = [replace(WORKER, running=1)]
    assert claim is not None
    stack.leases.beat({job["id"]: claim.fence})
    assert (await served.get(f"/v1/jobs/{job['id']}")).json()["eta_s"] == 3.0


@pytest.mark.parametrize(
    ("fields", "slo_s"),
    [({}, 18.0), ({"model": "small"}, 18.0), ({"steps": 10}, 6.0), ({"n": 2}, 3 * 30 * (2 / 7))],
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


async def test_without_a_plan_the_promise_is_that_of_the_settings(client, stack):
    assert (await ask(client)).json()["slo_s"] == stack.settings.slo_s


async def test_a_model_of_unknown_cost_is_shown_as_such(client, stack):
    stack.services.fleet = [replace(WORKER, untried=("large",))]
    models = (await client.get("/v1/models")).json()["data"]
    assert {m["id"]: m["untried_on"] for m in models} == {"small": [], "large": ["cpu"]}


async def test_the_plan_shows_what_jobs_are_promised_by(served):
    costs = (await served.get("/v1/plan")).json()["costs"]
    shown = {"fixed_s": 0.0, "steps": [[1, 0.1], [8, 0.4]], "is_measured": True}
    assert costs["cpu"]["small"] == shown


async def test_violations_are_shown_to_prometheus(client, stack):
    stack.store.stats["slo_violations"] = 3
    assert "atelier_slo_violations_total 3.0" in (await client.get("/metrics")).text
