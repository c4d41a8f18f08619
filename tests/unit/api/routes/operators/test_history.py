from core.boards.sample import ServiceSample
from tests.unit.api.conftest import Stack

BEFORE = ServiceSample(counters={"submitted": 5, "level:base@0": 2, "jobs:generate:succeeded": 2})
AFTER = ServiceSample(
    counters={
        "submitted": 12,
        "level:base@0": 5,
        "level:base@10": 1,
        "jobs:generate:succeeded": 5,
        "jobs:edit:succeeded": 1,
        "jobs:generate:failed": 2,
        "jobs:edit:expired": 1,
        "jobs:edit:canceled": 1,
        "slo_violations": 3,
        "reaped": 1,
        "retried": 1,
        "jobs_dead": 2,
    },
    devices={"cpu": 2},
    busy=1,
    running=3,
    slots=16,
    waiting=4,
    oldest_s=1.5,
    forecast=0.25,
    saturation=0.1,
    p50_s=1.0,
    p95_s=2.0,
    quality=0.75,
    scored=4,
)


async def test_the_last_hour_is_told_as_what_happened_from_sample_to_sample(client, stack):
    assert (await client.get("/v1/history")).json() == {"object": "history", "data": []}
    await stack.history.add(BEFORE)
    assert (await client.get("/v1/history")).json()["data"] == []
    await stack.history.add(AFTER)
    assert (await client.get("/v1/history")).json()["data"] == [
        {
            "ended_at": 1030.0,
            "seconds": 30.0,
            "accepted": 7,
            "succeeded": 4,
            "failed": 3,
            "canceled": 1,
            "late": 3,
            "redelivered": 2,
            "buried": 2,
            "images": {"base@0": 3, "base@10": 1},
            "p50_s": 1.0,
            "p95_s": 2.0,
            "quality": 0.75,
            "scored": 4,
            "queued": 4,
            "oldest_s": 1.5,
            "busy": 1,
            "running": 3,
            "slots": 16,
            "devices": {"cpu": 2},
            "cost": None,
            "forecast": 0.25,
            "saturation": 0.1,
        }
    ]


async def test_the_fleet_costs_what_its_devices_do_while_they_are_there(tmp_path):
    priced = Stack(tmp_path, device_prices={"cpu": 0.6})
    async with priced.client() as client:
        await priced.history.add(BEFORE)
        await priced.history.add(AFTER)
        (period,) = (await client.get("/v1/history")).json()["data"]
    assert period["cost"] == 2 * 30 / 3600 * 0.6


async def test_a_store_that_began_anew_takes_nothing_back(client, stack):
    await stack.history.add(AFTER)
    await stack.history.add(ServiceSample(counters={"submitted": 1}))
    (period,) = (await client.get("/v1/history")).json()["data"]
    assert (period["accepted"], period["succeeded"], period["images"]) == (0, 0, {})


async def test_the_last_hour_is_an_operators(tmp_path):
    keyed = Stack(tmp_path, api_keys={"k": "anna"}, operator_keys=("boss",))
    async with keyed.client() as client:
        for key, status in {"k": 403, "boss": 200}.items():
            answer = await client.get("/v1/history", headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == status
