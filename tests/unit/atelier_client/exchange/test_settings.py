import pytest

from atelier_client import Client
from atelier_client.errors import ClientError
from atelier_client.exchange.settings import ClientSettings
from atelier_client.exchange.steps import Call

READ = Call(method="GET", path="/v1/keys")
SIGNED = Call(method="GET", path="https://store.test/image.png?signature=x", is_signed=True)


def settings(key=None, cell=None):
    return ClientSettings.of("http://api.test", key, cell, timeout_s=1.0, max_retries=0)


def test_a_request_says_who_asks_which_cell_and_a_store_is_told_neither():
    asked = settings("the-key", "eu")
    assert asked.request(READ)["headers"] == {
        "Authorization": "Bearer the-key",
        "Atelier-Cell": "eu",
    }
    assert asked.request(SIGNED)["headers"] == {}
    assert settings().request(READ)["headers"] == {}


def test_the_cell_is_read_from_the_environment_where_none_is_given(monkeypatch):
    monkeypatch.setenv("ATELIER_ASK_CELL", "us")
    assert settings().request(READ)["headers"]["Atelier-Cell"] == "us"
    assert settings(cell="eu").request(READ)["headers"]["Atelier-Cell"] == "eu"


@pytest.mark.parametrize("said", [{"key": "ke\ny"}, {"cell": "ce\nll"}, {"cell": "zürich"}])
def test_what_no_header_can_carry_is_refused(said):
    with pytest.raises(ClientError, match="printable ASCII"):
        Client("http://api.test", **said)
