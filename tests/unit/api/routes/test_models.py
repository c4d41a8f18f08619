"""Models: listed for everybody, added and removed by operators while the service runs."""

import pytest

from api.services.served_models import FollowingTokens, ServedModels
from catalog.catalogue import Catalogue
from tests.unit.api.conftest import MODELS, Stack
from tests.unit.catalog.description.stock_folders import write_folder

KEYS = {"tenant-key": "shop"}


@pytest.fixture
def mine(tmp_path):
    return write_folder(tmp_path / "users" / "mine")


@pytest.fixture
def stack(tmp_path):
    return FollowingStack(tmp_path)


class FollowingStack(Stack):
    """One api whose models come from a folder."""

    def follow(self):
        folder = self.folder / "models"
        catalogue = Catalogue(folder)
        tokens = FollowingTokens(folder, catalogue)
        self.services.served = ServedModels(catalogue=catalogue, tokens=tokens)
        self.services.models = catalogue
        return catalogue


async def test_models_are_listed_with_their_quality_where_it_is_known(client):
    data = (await client.get("/v1/models")).json()["data"]
    assert {each["id"]: each["quality"] for each in data} == {"small": 0.8, "large": 1.0}
    assert all(each["weights"] is None for each in data)


async def test_a_folder_is_added_listed_and_removed(client, stack, mine):
    catalogue = stack.follow()
    response = await client.post("/v1/models", json={"path": str(mine), "name": "portraits"})
    assert response.status_code == 201, response.text
    added = response.json()
    assert (added["id"], added["family"], added["quality"]) == ("portraits", "sd", None)
    assert added["sizes"] == {"default": 512, "min": 256, "max": 1024, "multiple": 64}
    assert added["weights"]["parameters"] == 3 * 2**20
    assert (await client.get("/v1/models")).json()["data"] == [added]
    assert list(catalogue) == ["portraits"]

    response = await client.delete("/v1/models/portraits")
    assert response.json() == {"id": "portraits", "object": "model", "deleted": True}
    assert (await client.get("/v1/models")).json()["data"] == []
    assert (mine / "unet" / "config.json").is_file()
    assert (await client.delete("/v1/models/portraits")).status_code == 404


async def test_who_added_and_removed_a_model_is_noted(client, stack, mine):
    stack.follow()
    for is_dry in (True, False):
        body = {"path": str(mine), "name": "portraits", "dry_run": is_dry}
        await client.post("/v1/models", json=body)
    await client.delete("/v1/models/portraits")
    removed, added = (await client.get("/v1/audit")).json()["data"]
    assert (added["event"], added["facts"]) == (
        "model_added",
        {"model": "portraits", "path": str(mine)},
    )
    assert (removed["event"], removed["facts"]) == ("model_removed", {"model": "portraits"})


async def test_what_it_would_be_is_said_and_nothing_changes(client, stack, mine):
    stack.follow()
    response = await client.post("/v1/models", json={"path": str(mine), "dry_run": True})
    assert (response.status_code, response.json()["id"]) == (200, "mine")
    assert (await client.get("/v1/models")).json()["data"] == []


async def test_a_folder_whose_prompts_could_not_be_counted_is_refused(client, stack, mine):
    catalogue = stack.follow()
    (mine / "tokenizer" / "tokenizer.json").write_text("{}")
    response = await client.post("/v1/models", json={"path": str(mine)})
    assert response.status_code == 422
    assert "no tokenizer that can be read" in response.json()["errors"][0]["detail"]
    assert list(catalogue) == []
    assert not (stack.folder / "models" / "mine").exists()


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ({"path": "/nowhere/at/all"}, "path", "there is no such folder"),
        ({"path": "{tmp}"}, "path", "model_index.json"),
        ({"path": "/" + "0" * 4000}, "path", "no path"),
        ({"path": "a\x00b"}, "path", "no path"),
        ({"path": "~nobody-of-this-name/models"}, "path", "no path"),
        ({"path": "{mine}", "base": "0" * 4000}, "base", "no path"),
        ({"path": "{mine}", "name": "a model"}, "path", "cannot name a model"),
        ({"name": "mine"}, "path", "required"),
        ({"path": "{mine}", "colour": "red"}, "colour", ""),
    ],
)
async def test_what_cannot_be_added_is_refused_with_the_reason(
    client, stack, mine, tmp_path, body, field, reason
):
    stack.follow()
    body = {k: v.format(mine=mine, tmp=tmp_path) for k, v in body.items()}
    response = await client.post("/v1/models", json=body)
    assert response.status_code == 422
    told = {each["field"]: each["detail"] for each in response.json()["errors"]}
    assert reason in told[field]


async def test_only_operators_change_what_is_served(tmp_path, mine):
    stack = FollowingStack(tmp_path, api_keys=KEYS, operator_keys=("operator-key",))
    async with stack.client() as client:
        stack.follow()
        for key, status in (
            (None, 401),
            ("wrong", 401),
            ("tenant-key", 403),
            ("operator-key", 201),
        ):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            response = await client.post("/v1/models", json={"path": str(mine)}, headers=headers)
            assert response.status_code == status, response.text
        for key, status in (("tenant-key", 403), ("operator-key", 200)):
            headers = {"Authorization": f"Bearer {key}"}
            assert (await client.get("/v1/models", headers=headers)).status_code == 200
            response = await client.delete("/v1/models/mine", headers=headers)
            assert response.status_code == status


async def test_with_keys_and_no_operators_nobody_changes_what_is_served(tmp_path, mine):
    stack = FollowingStack(tmp_path, api_keys=KEYS)
    async with stack.client(Authorization="Bearer tenant-key") as client:
        stack.follow()
        response = await client.post("/v1/models", json={"path": str(mine)})
    assert response.status_code == 403
    assert response.json()["type"] == "urn:problem-type:atelier:missing-scope"
    assert "ATELIER_OPERATOR_KEYS" in response.json()["detail"]


async def test_a_page_of_another_site_adds_nothing(client, stack, mine):
    stack.follow()
    body = b'{"path": "%s"}' % str(mine).encode()
    response = await client.post("/v1/models", content=body, headers={"Content-Type": "text/plain"})
    assert response.status_code == 415


async def test_a_model_is_loadable_once_the_plan_knows_a_worker_for_it(client, stack):
    async def loadable():
        data = (await client.get("/v1/models")).json()["data"]
        return {each["id"] for each in data if each["is_loadable"]}

    assert await loadable() == set()
    stack.report()
    await stack.services.follower.refresh()
    stack.services.stations.hear(await stack.services.board.changes())
    assert await loadable() == {"small"}
    assert set(MODELS) == {"small", "large"}
