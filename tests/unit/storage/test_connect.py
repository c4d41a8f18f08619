import pytest
import redis

from core.errors import StoreUnavailable
from storage.connect import connect, connect_sync, converting_errors
from storage.keys import PRIORITIES, list_of, waiting_key

OURS = [
    redis.ConnectionError("refused"),
    redis.TimeoutError("slow"),
    redis.BusyLoadingError("loading"),
    redis.ReadOnlyError("replica"),
    redis.OutOfMemoryError("full"),
    redis.ResponseError("MISCONF cannot persist"),
    OSError("network is unreachable"),
]


@pytest.mark.parametrize("error", OURS, ids=lambda e: type(e).__name__)
def test_a_server_that_cannot_serve_is_unavailable(error: Exception) -> None:
    with pytest.raises(StoreUnavailable) as caught, converting_errors():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [redis.ResponseError("ERR syntax"), KeyError("x")])
def test_mistakes_of_ours_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)), converting_errors():
        raise error


async def test_connecting_sends_nothing() -> None:
    client, sync = connect("redis://127.0.0.1:1/0"), connect_sync("redis://127.0.0.1:1/0")
    await client.aclose()
    sync.close()


def test_lists_are_named_as_kombu_names_them() -> None:
    names = [list_of("gen.m", priority) for priority in PRIORITIES]
    assert names == ["gen.m", "gen.m\x06\x163", "gen.m\x06\x166", "gen.m\x06\x169"]
    assert waiting_key("gen.m", 6) == "waiting:gen.m\x06\x166"
