"""Images within answers of OpenAI's API: how much of them is in memory, and for how long."""

import asyncio
import base64
import json
from types import SimpleNamespace

import pytest

from api.facades.openai.inline import PIECE_BYTES, held, largest_bytes, pieces
from core.bodies.incoming import HeldBytes
from core.errors import ObjectsUnavailable, TooManyRequests
from tests.unit.api.facades.worker import IMAGE, worker

PATH = "/v1/images/generations"
ASKED = {"prompt": "x", "model": "small"}
KEY = {"idempotency-key": "k1"}
STREAMED = pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["whole", "stream"])


class Objects:
    """Reads of an object store; counts how many there were."""

    def __init__(self, objects):
        self.objects, self.num_reads = objects, 0

    def get(self, key):
        self.num_reads += 1
        return self.objects.get(key)


class Connection:
    """One request of an app, whose client reads what it likes of the answer."""

    def __init__(self, app, asked):
        self.app, self.body = app, json.dumps(asked).encode()
        self.is_asked, self.left = False, asyncio.Event()

    async def receive(self):
        if not self.is_asked:
            self.is_asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def ask(self, read):
        """Send the request; `read` is told each part of the answer that is not empty."""

        async def send(message):
            if message.get("body"):
                await read(message["body"])

        headers = {"host": "api.test", "content-type": "application/json"}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "server": ("api.test", 80),
            "path": PATH,
            "raw_path": PATH.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        async with asyncio.timeout(60):
            await self.app(scope, self.receive, send)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES + 1])
def test_an_image_in_pieces_is_that_image(size):
    data = bytes(at % 251 for at in range(size))
    written = json.loads(b"".join(pieces(data, {"seed": 7})))
    assert written == {"seed": 7, "b64_json": base64.b64encode(data).decode()}


async def test_an_answer_of_several_images_is_one_document(client, stack):
    async with worker(stack):
        response = await client.post(PATH, json=ASKED | {"n": 3, "seed": 5, "size": "64x64"})
    assert response.headers["content-type"] == "application/json"
    made = response.json()
    image = base64.b64encode(IMAGE).decode()
    assert made.pop("data") == [{"seed": seed, "b64_json": image} for seed in (5, 6, 7)]
    assert made.pop("created") > 0
    assert made == {
        "background": "opaque",
        "output_format": "png",
        "quality": "auto",
        "size": "64x64",
    }


@STREAMED
async def test_images_are_read_one_by_one_and_count_until_they_are_sent(client, stack, more):
    stack.services.objects = objects = Objects(stack.objects)
    seen = []

    async def read(part):
        seen.append((objects.num_reads, stack.services.answers.total_bytes > 0))

    async with worker(stack):
        await Connection(client._transport.app, ASKED | {"n": 3} | more).ask(read)
    assert sorted(set(seen)) == [(1, True), (2, True), (3, True)]
    assert stack.services.answers.total_bytes == 0


@STREAMED
async def test_a_client_that_leaves_an_answer_gives_its_room_back(client, stack, more):
    connection = Connection(client._transport.app, ASKED | {"n": 3} | more)
    counted = []

    async def read(part):
        counted.append(stack.services.answers.total_bytes)
        connection.left.set()
        await asyncio.Event().wait()  # it reads no more

    async with worker(stack):
        await connection.ask(read)
    assert len(counted) == 1 and counted[0] > 0
    assert stack.services.answers.total_bytes == 0


async def test_images_for_which_there_is_no_room_are_there_for_the_same_key_later(client, stack):
    answers, stack.services.answers = stack.services.answers, HeldBytes(0, 0)
    async with worker(stack):
        refused = await client.post(PATH, json=ASKED, headers=KEY)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"
    assert "x-should-retry" not in refused.headers
    (job_id,) = stack.store.records
    assert f"GET /v1/jobs/{job_id}" in refused.json()["error"]["message"]
    stack.services.answers = answers
    made = await client.post(PATH, json=ASKED, headers=KEY)
    assert base64.b64decode(made.json()["data"][0]["b64_json"]) == IMAGE
    assert len(stack.store.records) == 1


async def test_without_a_key_nobody_has_images_made_again_for_want_of_room(client, stack):
    stack.services.answers = HeldBytes(0, 0)
    async with worker(stack):
        refused = await client.post(PATH, json=ASKED)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")


async def test_a_stream_says_that_there_is_no_room_for_its_images(client, stack):
    stack.services.answers = HeldBytes(0, 0)
    async with worker(stack):
        response = await client.post(PATH, json=ASKED | {"stream": True})
    assert "event: error" in response.text
    assert "rate_limit_error" in response.text
    assert "completed" not in response.text


async def test_urls_need_no_room(client, stack):
    stack.services.answers = HeldBytes(0, 0)
    async with worker(stack):
        response = await client.post(PATH, json=ASKED | {"response_format": "url"})
    (image,) = response.json()["data"]
    assert (await client.get(image["url"])).content == IMAGE


async def test_an_object_store_that_is_away_is_told_of_before_anything_is_sent(client, stack):
    class Away:
        def get(self, key):
            raise ObjectsUnavailable("refused")

    stack.services.objects = Away()
    async with worker(stack):
        response = await client.post(PATH, json=ASKED)
    assert response.status_code == 503
    assert "objects" in response.json()["error"]["message"]
    assert stack.services.answers.total_bytes == 0


async def test_the_largest_answer_has_room_alone_and_others_are_not_kept_out(client, stack):
    request = SimpleNamespace(app=client._transport.app, headers={}, scope={})

    def hold(tenant, size):
        return held(request, SimpleNamespace(tenant=tenant, id="j"), size)

    with hold("ann", 2**40):
        with hold("ben", 2**20), hold("ben", 2**20):
            assert stack.services.answers.total_bytes > 2 * 2**20
        with pytest.raises(TooManyRequests), hold("ann", 2**40):
            raise AssertionError("held")
    assert stack.services.answers.total_bytes == 0


def test_an_image_whose_size_nobody_noted_counts_as_its_pixels():
    noted = SimpleNamespace(size_bytes=50, width=9, height=9)
    old = SimpleNamespace(size_bytes=0, width=4, height=5)
    assert largest_bytes(SimpleNamespace(images=[noted, old])) == 60
    assert largest_bytes(SimpleNamespace(images=[])) == 0
