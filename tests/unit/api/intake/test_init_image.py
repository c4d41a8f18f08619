"""Images that start from a picture, from their submit to the record."""

import pytest

from tests.unit.api.pictures import a_photo, data_url, opened

ASKED = {"prompt": "a blue star", "image": data_url(a_photo()), "strength": 0.6}


async def submit(client, **changes):
    response = await client.post("/v1/jobs", json=ASKED | changes)
    assert response.status_code == 202, response.text
    return response.json()


async def refused(client, stack, **changes):
    """Ask for what is refused; return why, by field."""
    response = await client.post("/v1/jobs", json=ASKED | changes)
    assert response.status_code == 422, response.text
    assert not stack.stored() and not stack.store.records
    return {error["field"]: error["detail"] for error in response.json()["errors"]}


async def test_a_picture_to_start_from_is_stored_with_its_job(client, stack):
    job = await submit(client, model="small")
    request = stack.store.records[job["id"]].job.request
    assert request.init_image.image == f"default/{job['id']}/inputs/image.png"
    assert request.inputs == {"image": request.init_image.image}
    assert opened(stack.objects.get(request.init_image.image)).size == (64, 64)
    assert (job["task"], job["strength"]) == ("generate", 0.6)
    assert request.strength == 0.6


async def test_the_image_has_the_size_of_its_picture_unless_another_is_asked_for(client):
    photo = data_url(a_photo(160, 128))
    own = await submit(client, image=photo, model="large")
    assert (own["width"], own["height"]) == (160, 128)
    scaled = await submit(client, image=photo, model="large", width=128)
    assert (scaled["width"], scaled["height"]) == (128, 128)


async def test_where_no_strength_is_given_most_of_the_schedule_is_run(client, stack):
    job = await submit(client, strength=None)
    assert job["strength"] == 0.8
    assert stack.scheduler.calls[-1][0].share == 0.8


async def test_a_picture_of_a_size_that_nobody_makes_needs_one(client, stack):
    odd = data_url(a_photo(65, 64))
    said = await refused(client, stack, image=odd)
    assert "65 x 64 pixels" in said["image"] and "say which width and height" in said["image"]
    assert (await submit(client, image=odd, width=64, height=64))["width"] == 64


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"image": None}, "strength"),
        ({"task": "edit", "template": "t", "mask": "m"}, "image"),
        ({"steps": 1}, "strength"),
        ({"image": data_url(b"no picture")}, "image"),
        ({"mask": data_url(a_photo())}, "mask"),
    ],
)
async def test_what_cannot_be_is_refused_and_nothing_is_stored(client, stack, changes, field):
    assert field in await refused(client, stack, **changes)
