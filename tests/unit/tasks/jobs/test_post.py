import httpx
import pytest

from core.errors import TargetRefused
from tasks.jobs.post import post


def resolving(*addresses):
    async def resolve(host, port):
        return list(addresses)

    return resolve


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"], ["::ffff:a00:1"]],
)
async def test_a_public_name_that_leads_inside_is_refused(addresses):
    with pytest.raises(TargetRefused):
        await post(
            "https://example.com/",
            b"{}",
            {},
            timeout_s=1,
            allow_private=False,
            resolve=resolving(*addresses),
        )


async def test_a_url_that_must_not_be_called_is_not_even_looked_up():
    async def resolve(host, port):
        raise AssertionError("looked up")

    with pytest.raises(TargetRefused):
        await post(
            "http://example.com/", b"{}", {}, timeout_s=1, allow_private=False, resolve=resolve
        )


async def test_a_name_without_an_address_is_a_failed_attempt():
    with pytest.raises(OSError, match="no address"):
        await post(
            "https://example.com/",
            b"{}",
            {},
            timeout_s=1,
            allow_private=False,
            resolve=resolving(),
        )


@pytest.mark.parametrize("host", ["a" * 64 + ".example.com", "a..example.com", "xn--\x7f.com"])
async def test_a_host_no_resolver_can_read_is_refused(host):
    with pytest.raises(TargetRefused):
        await post(f"https://{host}/", b"{}", {}, timeout_s=1, allow_private=False)


@pytest.mark.parametrize("url", ["https://xn--a.example.com/", "https://example.com:0443/%zz"])
async def test_a_url_that_only_one_reader_understands_fails_without_a_surprise(url):
    with pytest.raises((TargetRefused, httpx.HTTPError, OSError, TimeoutError)):
        await post(url, b"{}", {}, timeout_s=1, allow_private=True, resolve=resolving("127.0.0.1"))
