import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigurationError
from storage.redis.address import Credentials, OneServer, Sentinels, broker_url, read_address

SENTINELS = "sentinel://us:p%40ss@a:26379,[::1],c:7/2?service=atelier&sentinel_password=other"


@pytest.mark.parametrize(
    ("url", "read"),
    [
        ("redis://u:p@h:6379/0", "redis://u:p@h:6379/0"),
        ("rediss://h", "rediss://h"),
        ("valkey://h:1/3", "redis://h:1/3"),
        ("valkeys://h", "rediss://h"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_an_address_of_one_server_is_the_client_librarys(url, read):
    assert read_address(url) == OneServer(url=read)
    assert broker_url(read_address(url)) == read


def test_sentinels_are_read_with_the_accounts_of_both():
    assert read_address(SENTINELS) == Sentinels(
        sentinels=(("a", 26379), ("::1", 26379), ("c", 7)),
        service="atelier",
        db=2,
        has_tls=False,
        credentials=Credentials(username="us", password="p@ss"),
        sentinel_credentials=Credentials(password="other"),
    )
    assert read_address(SENTINELS.replace("sentinel:", "sentinels:")).has_tls


def test_celery_is_told_of_every_sentinel():
    assert broker_url(read_address(SENTINELS)) == (
        "sentinel://us:p%40ss@a:26379/2;sentinel://us:p%40ss@[::1]:26379/2;"
        "sentinel://us:p%40ss@c:7/2"
    )
    assert broker_url(read_address("sentinel://a?service=s")) == "sentinel://a:26379/0"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "begins with none of"),
        ("amqp://h", "begins with none of"),
        ("sentinel://a:26379/0", "no \\?service="),
        ("sentinel://a,?service=s", "without a host"),
        ("sentinel://a:x?service=s", "Port could not be cast"),
        ("sentinel://a/x?service=s", "number of the database"),
        ("sentinel://a?service=s&retry=1", "no such option: retry"),
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(url, told):
    with pytest.raises(ConfigurationError, match=told):
        read_address(url)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_without_its_password(text):
    try:
        read_address(f"sentinel://u:secret@{text}")
    except ConfigurationError as error:
        assert "secret" not in str(error).replace(text, "")


def test_passwords_are_not_shown():
    assert "p@ss" not in repr(read_address(SENTINELS))
    assert "secret" not in repr(read_address("redis://u:secret@h"))
