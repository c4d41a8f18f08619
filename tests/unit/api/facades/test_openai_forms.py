"""Fields of forms: what OpenAI's client makes of `extra_body`, and which values are texts."""

import json

import openai
import pytest

from api.facades.openai.translate import from_texts
from core.errors import InvalidRequest
from tests.unit.api.facades.test_openai import client_of, with_hole
from tests.unit.api.facades.worker import only_request, worker


async def edit(client, **more):
    photo = ("photo.png", with_hole(), "image/png")
    return await client_of(client).images.edit(image=photo, prompt="x", model="small", **more)


async def test_an_object_comes_in_parts(client, stack):
    async with worker(stack):
        await edit(client, extra_body={"metadata": {"order": "1234", "is_new": "true"}})
    assert dict(only_request(stack).metadata) == {"order": "1234", "is_new": "true"}


async def test_a_list_in_parts_is_refused_and_told_to_come_as_json(client, stack):
    with pytest.raises(openai.BadRequestError, match="as JSON text") as refused:
        await edit(client, extra_body={"loras": [{"id": "a", "scale": 0.5}]})
    assert refused.value.param == "loras"
    assert not stack.store.records


@pytest.mark.parametrize("name", ["user", "safety_identifier"])
async def test_a_number_is_a_text_where_a_text_is_asked_for(client, stack, name):
    async with worker(stack):
        await edit(client, **{name: "1234"})
    assert only_request(stack).edit is not None


def test_each_part_is_read_as_its_field_is():
    sent = {
        "ip_adapter[id]": "7",
        "ip_adapter[scale]": "0.5",
        "metadata[order]": "1234",
        "second_pass[steps]": "3",
        "seed": "8",
    }
    assert from_texts(sent) == {
        "ip_adapter": {"id": "7", "scale": 0.5},
        "metadata": {"order": "1234"},
        "second_pass": {"steps": 3},
        "seed": 8,
    }


def test_whatever_is_no_text_may_come_whole_as_json():
    whole = {
        "ip_adapter": {"id": "7", "scale": 0.5},
        "metadata": {"order": "1234"},
        "loras": [{"id": "a"}],
        "sigmas": [1.0, 0.5, 0.0],
    }
    assert from_texts({name: json.dumps(value) for name, value in whole.items()}) == whole


@pytest.mark.parametrize("name", ["loras[][id]", "loras[0]x", "loras[]", "loras[a][b]", "loras["])
def test_what_is_not_one_value_of_an_object_is_refused(name):
    with pytest.raises(InvalidRequest) as refused:
        from_texts({name: "1"})
    assert [error.field for error in refused.value.errors] == ["loras"]


def test_an_object_that_comes_whole_and_in_parts_is_refused():
    with pytest.raises(InvalidRequest) as refused:
        from_texts({"metadata": "{}", "metadata[order]": "1234"})
    assert [error.field for error in refused.value.errors] == ["metadata"]
