"""Models as OpenAI's own client reads them, on paths that our own clients read as well."""

import httpx2
import openai
import pytest

from api.services.served_models import FollowingTokens, ServedModels
from api.views.problems import MEDIA_TYPE
from catalog.catalogue import Catalogue
from tests.unit.api.conftest import Stack
from tests.unit.catalog.description.stock_folders import write_folder


@pytest.fixture
async def ai(client) -> openai.AsyncOpenAI:
    transport = httpx2.ASGITransport(client._transport.app, raise_app_exceptions=False)
    http = httpx2.AsyncClient(transport=transport)
    return openai.AsyncOpenAI(
        api_key="k",
        base_url="http://api.test/v1",
        http_client=http,
        max_retries=0,
        _strict_response_validation=True,
    )


def follow(stack: Stack) -> None:
    """Have the service follow a folder of models."""
    catalogue = Catalogue(stack.folder / "models")
    tokens = FollowingTokens(stack.folder / "models", catalogue)
    stack.services.served = ServedModels(catalogue=catalogue, tokens=tokens)
    stack.services.models = catalogue


async def test_a_model_has_what_theirs_have(ai):
    [first, _] = (await ai.models.list()).data
    assert (first.id, first.object, first.created, first.owned_by) == (
        "small",
        "model",
        0,
        "atelier",
    )
    assert await ai.models.retrieve("small") == first


async def test_a_model_was_created_when_its_folder_was_described(ai, stack):
    mine = write_folder(stack.folder / "models" / "mine")
    follow(stack)
    [shown] = (await ai.models.list()).data
    assert shown.created == int((mine / "model_index.json").stat().st_mtime)


async def test_a_model_that_is_not_there_is_said_as_theirs_and_as_a_problem(ai, client):
    with pytest.raises(openai.NotFoundError) as missing:
        await ai.models.retrieve("gpt-image-2")
    assert (missing.value.code, missing.value.type) == ("not_found", "invalid_request_error")
    assert "there is no model gpt-image-2" in missing.value.body["message"]
    response = await client.get("/v1/models/gpt-image-2")
    assert response.headers["content-type"] == MEDIA_TYPE
    problem = response.json()
    assert (problem["status"], problem["detail"]) == (404, "there is no model gpt-image-2")


async def test_a_wrong_key_is_said_as_theirs(tmp_path):
    async with Stack(tmp_path, api_keys={"right": "acme"}).client() as client:
        problem = (await client.get("/v1/models")).json()
    assert problem["error"]["code"] == "unauthorized"
    assert problem["type"].endswith(":unauthorized")


@pytest.mark.parametrize("path", ["/v1/jobs/x", "/v1/models/acme/small", "/v1/predictions/x"])
async def test_problems_of_other_paths_are_problems_alone(client, path):
    assert "error" not in (await client.get(path)).json()
