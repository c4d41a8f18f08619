"""ControlNets from submit to record: what is refused leaves nothing, what is accepted all."""

import pytest

from core.errors import ObjectsUnavailable
from tests.unit.api.pictures import a_mask, a_photo, data_url, opened

IMAGE = data_url(a_photo(40, 24))
STEERED = {"prompt": "a red star", "controls": [{"id": "edges", "image": IMAGE}]}


async def steer(client, **changes):
    response = await client.post("/v1/jobs", json=STEERED | changes)
    assert response.status_code == 202, response.text
    return response.json()


async def refused(client, stack, **changes):
    """Ask for a job that is refused; return why, by field."""
    before = stack.stored(), list(stack.store.records)
    response = await client.post("/v1/jobs", json=STEERED | changes)
    assert response.status_code == 422, response.text
    assert (stack.stored(), list(stack.store.records)) == before
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


async def test_a_steered_job_is_stored_with_its_conditions(client, stack):
    controls = [
        {"id": "edges", "image": IMAGE, "scale": 0.5, "start": 0.1, "end": 0.9},
        {"id": "depth", "image": data_url(a_photo(64, 64))},
    ]
    job = await steer(client, controls=controls)
    first, second = stack.store.records[job["id"]].job.request.controls
    assert (first.controlnet, first.scale, first.start, first.end) == ("edges", 0.5, 0.1, 0.9)
    assert (second.controlnet, second.scale, second.start, second.end) == ("depth", 1.0, 0.0, 1.0)
    assert first.image == f"default/{job['id']}/inputs/condition-0.png"
    assert opened(stack.objects.get(first.image)).size == (40, 24)
    assert opened(stack.objects.get(second.image)).size == (64, 64)


async def test_an_edit_is_stored_with_its_conditions(client, stack):
    pictures = {"template": data_url(a_photo(64, 64)), "mask": data_url(a_mask(64, 64))}
    job = await steer(client, task="edit", **pictures)
    request = stack.store.records[job["id"]].job.request
    [control] = request.controls
    for key in (control.image, request.edit.template, request.edit.mask):
        assert opened(stack.objects.get(key)).size in ((40, 24), (64, 64))
    assert (request.width, request.height, request.model) == (64, 64, "small")


async def test_a_job_shows_what_it_was_asked_for_with_and_where_its_pictures_are(client):
    pictures = {"template": data_url(a_photo(64, 64)), "mask": data_url(a_mask(64, 64))}
    job = await steer(client, task="edit", **pictures)
    [control] = job["controls"]
    said = {name: control[name] for name in ("id", "scale", "start", "end", "mode")}
    assert said == {"id": "edges", "scale": 1.0, "start": 0.0, "end": 1.0, "mode": None}
    sizes = [
        opened((await client.get(url)).content).size
        for url in (job["template"], job["mask"], control["image"])
    ]
    assert sizes == [(64, 64), (64, 64), (40, 24)]
    assert job["image"] is None
    assert (await client.get(f"/v1/jobs/{job['id']}")).json()["controls"][0]["id"] == "edges"


async def test_the_mode_of_a_picture_goes_with_it(client, stack):
    uses = [{"id": "union", "image": IMAGE, "mode": mode} for mode in (5, 0)]
    job = await steer(client, controls=uses)
    stored = stack.store.records[job["id"]].job.request.controls
    assert [control.mode for control in stored] == [5, 0]
    listed = (await client.get("/v1/controlnets")).json()["data"]
    assert [each["modes"] for each in listed] == [0, 0, 6, 0]


async def test_a_t2i_adapter_is_told_from_a_controlnet(client, stack):
    uses = [{"id": name, "image": IMAGE} for name in ("sketch", "edges")]
    job = await steer(client, controls=uses)
    stored = stack.store.records[job["id"]].job.request.controls
    assert [control.is_adapter for control in stored] == [True, False]


async def test_it_goes_to_a_model_that_its_controlnets_steer(client, stack):
    assert (await steer(client))["model"] == "small"
    [query] = stack.scheduler.calls[0]
    assert query.models == ("small",) and query.terms == ()
    faults = await refused(client, stack, model="large")
    assert faults == {"controls.0.id": "is for small, not for large"}


async def test_what_is_wrong_with_each_picture_is_named(client, stack):
    images = ["data:image/png;base64,AAAA", "x"]
    controls = [{"id": "edges", "image": image} for image in images]
    faults = await refused(client, stack, controls=controls)
    assert faults.keys() == {"controls.0.image", "controls.1.image"}


@pytest.mark.parametrize(
    ("changes", "field", "detail"),
    [
        (
            {"controls": [{"id": "pose", "image": IMAGE}]},
            "controls.0.id",
            "one of edges, depth",
        ),
        ({"controls": [{"id": "depth", "image": IMAGE}] * 4}, "controls", "at most 3"),
        (
            {"controls": [{"id": "depth", "image": IMAGE, "start": 0.5, "end": 0.5}]},
            "controls.0.end",
            "more than `start`",
        ),
        ({"controls": [{"id": "edges", "image": IMAGE, "mode": 0}]}, "controls.0.mode", "Union"),
        (
            {"controls": [{"id": "sketch", "image": IMAGE, "start": 0.1}]},
            "controls.0.start",
            "from the first step on",
        ),
        ({"controls": [{"id": "union", "image": IMAGE}]}, "controls.0.mode", "from 0 to 5"),
        (
            {"controls": [{"id": "union", "image": IMAGE, "mode": 6}]},
            "controls.0.mode",
            "from 0 to 5",
        ),
        (
            {
                "controls": [
                    {"id": "union", "image": IMAGE, "mode": 0},
                    {"id": "union", "image": IMAGE, "mode": 1, "end": 0.5},
                ]
            },
            "controls.1.end",
            "at all steps",
        ),
    ],
)
async def test_controls_that_cannot_be_are_refused(client, stack, changes, field, detail):
    assert detail in (await refused(client, stack, **changes))[field]


async def test_a_job_that_is_not_accepted_leaves_no_picture(client, stack):
    before = stack.stored()
    stack.jobs._max_queue = 0
    response = await client.post("/v1/jobs", json=STEERED)
    assert response.status_code == 429
    assert stack.stored() == before


async def test_an_object_store_that_is_away_refuses_the_job(client, stack):
    def put(*args):
        raise ObjectsUnavailable("the disk is full")

    stack.services.images._objects = Away(stack.objects, put)
    response = await client.post("/v1/jobs", json=STEERED)
    assert response.status_code == 503
    assert not stack.store.records


class Away:
    """An object store that takes nothing."""

    def __init__(self, objects, put):
        self.delete, self.put = objects.delete, put


async def test_the_controlnets_are_listed_with_what_they_are_for(client):
    listed = (await client.get("/v1/controlnets")).json()
    assert listed["max_controls"] == 3
    assert [(each["id"], each["models"], each["condition"]) for each in listed["data"]] == [
        ("edges", ["small"], "outlines"),
        ("depth", ["small", "large"], ""),
        ("union", ["small"], ""),
        ("sketch", ["small"], ""),
    ]
