import pytest

from api.services.scopes import NEEDED
from run.api import create_app
from storage.tenants.key import Scope
from tests.unit.api.conftest import Stack

ASKED = [(row, scope) for row, scope in NEEDED.items() if scope is not None]


def routes(settings):
    app = create_app(settings)
    return {f"{method} {route.path}" for route in app.routes for method in route.methods}


def test_the_table_has_a_row_for_every_route_and_no_other(stack):
    assert routes(stack.settings) == NEEDED.keys()


@pytest.fixture
def operated(tmp_path):
    return Stack(tmp_path, operator_keys=("boss",))


def path_of(row: str) -> tuple[str, str]:
    method, path = row.split()
    return method, path.replace("{", "").replace("}", "")


async def made(client, *scopes):
    body = {"tenant": "acme", "scopes": list(scopes)}
    return (await client.post("/v1/keys", json=body)).json()["key"]


async def test_every_route_asks_for_its_scope_before_anything_else(operated):
    async with operated.client(Authorization="Bearer boss") as client:
        lacking = {
            scope: await made(client, *(each for each in Scope if each is not scope))
            for scope in Scope
        }
        for row, scope in ASKED:
            method, path = path_of(row)
            headers = {"Authorization": f"Bearer {lacking[scope]}"}
            answer = await client.request(method, path, headers=headers)
            assert answer.status_code == 403, (row, answer.text)
            assert f"`{scope}`" in answer.text, row
            answer = await client.request(method, path, headers={"Authorization": ""})
            assert answer.status_code == 401, (row, answer.text)


async def test_every_route_lets_its_scope_in(operated):
    async with operated.client(Authorization="Bearer boss") as client:
        having = {scope: await made(client, scope) for scope in Scope}
        for row, scope in ASKED:
            method, path = path_of(row)
            headers = {"Authorization": f"Bearer {having[scope]}"}
            answer = await client.request(method, path, headers=headers)
            assert answer.status_code not in (401, 403), (row, answer.text)
