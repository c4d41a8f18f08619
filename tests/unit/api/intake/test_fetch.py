"""Images from strangers' URLs, through a fake of the network."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from threading import Event

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.intake.fetch import MAX_REDIRECTS, fetch
from core.errors import ImageRefused
from tasks.jobs import safe_connect as network
from tasks.jobs.lookups import Lookups

URL = "https://example.com/photo.png"


class Web:
    """Answers by URL; whatever it does not know is really dialled."""

    def __init__(self, *answers):
        self.answers, self.asked = dict(answers), []

    @asynccontextmanager
    async def dial(self, method, url, **options):
        self.asked.append((method, url))
        if url not in self.answers:
            async with network.dial(method, url, **options) as response:
                yield response
        elif isinstance(self.answers[url], Exception):
            raise self.answers[url]
        else:
            yield self.answers[url]

    async def fetch(self, url=URL, max_bytes=100, timeout_s=5.0):
        return await fetch(
            url, max_bytes=max_bytes, timeout_s=timeout_s, allow_private=False, dial=self.dial
        )


def moved(to):
    return httpx.Response(302, headers={"location": to})


def sends(*chunks, headers=None):
    async def stream():
        for chunk in chunks:
            yield chunk

    return httpx.Response(200, content=stream(), headers=headers)


async def test_an_image_is_read_whole():
    assert await Web((URL, sends(b"abc", b"def"))).fetch() == b"abcdef"


async def test_a_moved_image_is_followed():
    web = Web(
        (URL, moved("/b.png")),
        ("https://example.com/b.png", moved("https://cdn.example.com/c.png")),
        ("https://cdn.example.com/c.png", sends(b"abc")),
    )
    assert await web.fetch() == b"abc"
    assert [url for _, url in web.asked][1:] == [
        "https://example.com/b.png",
        "https://cdn.example.com/c.png",
    ]


@pytest.mark.parametrize(
    "inside",
    [
        "https://127.0.0.1/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://localhost/",
        "http://example.com/photo.png",
        "https://user:pw@example.com/",
        "file:///etc/passwd",
        "//10.0.0.1/x",
    ],
)
async def test_no_redirect_leads_inside(inside):
    with pytest.raises(ImageRefused, match="is not fetched"):
        await Web((URL, moved(inside))).fetch()


async def test_an_image_that_is_moved_for_ever_is_given_up():
    web = Web((URL, moved(URL)))
    with pytest.raises(ImageRefused, match="redirected more than"):
        await web.fetch()
    assert len(web.asked) == 1 + MAX_REDIRECTS


@given(st.lists(st.binary(max_size=60), max_size=5), st.integers(0, 150))
def test_no_more_is_taken_than_the_limit(chunks, limit):
    whole = b"".join(chunks)
    reading = Web((URL, sends(*chunks))).fetch(max_bytes=limit)
    if len(whole) <= limit:
        assert asyncio.run(reading) == whole
    else:
        with pytest.raises(ImageRefused, match=f"larger than {limit} bytes"):
            asyncio.run(reading)


async def test_a_declared_length_over_the_limit_is_not_read():
    def never():
        raise AssertionError("read")
        yield

    answer = httpx.Response(200, content=never(), headers={"content-length": "9" * 30})
    with pytest.raises(ImageRefused, match="larger than"):
        await Web((URL, answer)).fetch()


@pytest.mark.parametrize("status", [204, 206, 304, 404, 500])
async def test_another_answer_is_told(status):
    with pytest.raises(ImageRefused, match=f"answers {status}"):
        await Web((URL, httpx.Response(status))).fetch()


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadError("reset"), OSError("no address")]
)
async def test_a_host_that_does_not_answer_is_told(error):
    with pytest.raises(ImageRefused, match="does not answer"):
        await Web((URL, error)).fetch()


async def test_a_host_that_takes_its_time_is_given_up():
    async def slow():
        yield b"a"
        await asyncio.sleep(60)

    with pytest.raises(ImageRefused, match=r"within 0\.01 s"):
        await Web((URL, httpx.Response(200, content=slow()))).fetch(timeout_s=0.01)


async def test_a_host_whose_name_is_never_looked_up_is_given_up_like_one_that_is_slow():
    let_go = Event()

    def hang(host, port):
        let_go.wait()
        return []

    dial = partial(network.dial, resolve=partial(Lookups(hang).resolve, "ann"))
    with pytest.raises(ImageRefused, match=r"within 0\.01 s"):
        await fetch(URL, max_bytes=100, timeout_s=0.01, allow_private=False, dial=dial)
    let_go.set()
