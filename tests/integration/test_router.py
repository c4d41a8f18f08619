"""The router before cells that are stand-ins: real connections, real bytes."""

import asyncio
import errno
import gzip
import json
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from uuid import uuid4

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from core.bodies import incoming
from router import bodies
from router.app import CellRouter, RouterLimits
from router.cells import CellsFile

pytestmark = pytest.mark.integration

MOST = 200_000  #: bytes of a body
KEYS = {f"key-{i}": f"tenant-{i}" for i in range(40)}
HEX = "0123456789abcdef" * 2


class StandIn:
    """What the router sees of a cell."""

    def __init__(self, name):
        self.name = name
        self.jobs: dict[str, dict] = {}
        self.heard = Counter()
        self.sizes: list[int] = []  #: bytes of each body that has come
        self.kept: list[dict] | None = None
        self.refuses_with: int | None = None
        self.headers: dict[str, str] = {}
        self.is_ready = True
        self.capacity: dict | None = None
        self.went_on = asyncio.Event()
        self.server: TestServer | None = None
        self.port = None

    async def start(self):
        app = web.Application(client_max_size=2**30, handler_args={"auto_decompress": False})
        app.router.add_get("/readyz", self.readyz)
        app.router.add_post("/v1/jobs", self.submit)
        app.router.add_post("/v1/images/generations", self.make)
        app.router.add_get("/v1/jobs", self.list)
        app.router.add_get("/v1/jobs/{id}", self.read)
        app.router.add_get("/v1/jobs/{id}/events", self.follow)
        app.router.add_post("/v1/templates", self.keep)
        app.router.add_get("/v1/templates", self.list_kept)
        app.router.add_get("/v1/templates/{id}", self.read_kept)
        app.router.add_post("/v1/applications", self.register)
        app.router.add_patch("/v1/tenants/{name}", self.limit)
        self.server = TestServer(app, port=self.port)
        await self.server.start_server()
        self.port = self.server.port

    async def stop(self):
        await self.server.close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    async def readyz(self, request):
        if not self.is_ready:
            return web.json_response({"status": 503}, status=503)
        said = {"status": "ready", "cell": self.name}
        return web.json_response(said | ({"capacity": self.capacity} if self.capacity else {}))

    async def submit(self, request):
        body = await request.json()
        self.sizes.append(len(await request.read()))
        job = {"id": f"{self.name}_{uuid4().hex}", "created_at": body["at"], **body}
        self.jobs[job["id"]] = job
        self.headers = dict(request.headers)
        return web.json_response(job, status=202, headers={"Location": f"/v1/jobs/{job['id']}"})

    async def make(self, request):
        body = await request.read()
        self.heard["images"] += 1
        await self.went_on.wait()
        return web.json_response({"bytes": len(body)})

    async def list(self, request):
        self.sizes.append(len(await request.read()))
        if self.refuses_with is not None:
            said = {"status": self.refuses_with, "cell": self.name}
            return web.json_response(said, status=self.refuses_with)
        rows = sorted(self.jobs.values(), key=lambda j: (j["created_at"], j["id"]), reverse=True)
        return web.json_response({"object": "list", "data": rows, "cursor": None})

    async def read(self, request):
        job = self.jobs.get(request.match_info["id"])
        return web.json_response(job or {}, status=200 if job else 404)

    async def follow(self, request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"event: status\n\n")
        await self.went_on.wait()
        await response.write(b"event: done\n\n")
        return response

    async def keep(self, request):
        size = sum([len(chunk) async for chunk in request.content.iter_any()])
        self.sizes.append(size)
        return web.json_response({"id": f"{self.name}_{uuid4().hex}", "bytes": size}, status=201)

    async def list_kept(self, request):
        rows = self.kept or [{"id": f"{self.name}_{uuid4().hex}", "created_at": 1.0}]
        return web.json_response({"object": "list", "data": rows, "cursor": None})

    async def read_kept(self, request):
        return web.json_response({"id": request.match_info["id"]})

    async def register(self, request):
        self.heard[(await request.json())["name"]] += 1
        return web.json_response({"name": "shop", "cell": self.name}, status=201)

    async def limit(self, request):
        self.heard[request.match_info["name"]] += 1
        return web.json_response({"tenant": request.match_info["name"]})


class Cells:
    """Some cells, a router, and a client of it."""

    def __init__(self, folder, names, requests=100):
        self.requests = requests
        self.cells = {name: StandIn(name) for name in names}
        self.path = folder / "cells.json"
        self.states = {}
        self.router: TestServer
        self.http: aiohttp.ClientSession

    async def open(self, stack):
        for cell in self.cells.values():
            await cell.start()
            stack.push_async_callback(cell.stop)
        self.write()
        limits = RouterLimits(body_bytes=MOST, requests=self.requests)
        self.app = CellRouter(CellsFile(self.path), KEYS, "http://router.test", limits)
        self.router = TestServer(self.app.app())
        await self.router.start_server()
        stack.push_async_callback(self.router.close)
        self.http = await stack.enter_async_context(
            aiohttp.ClientSession(f"http://127.0.0.1:{self.router.port}")
        )
        await self.see_all("ready")  # the first look may have been in vain
        return self

    def write(self):
        said = {n: {"url": c.url, **self.states.get(n, {})} for n, c in self.cells.items()}
        self.path.write_text(json.dumps(said))

    async def submit(self, tenant, **body):
        headers = {"Authorization": f"Bearer key-{tenant}"}
        body = {"prompt": "a", "at": 1.0} | body
        async with self.http.post("/v1/jobs", json=body, headers=headers) as answer:
            assert answer.status == 202, await answer.text()
            return (await answer.json())["id"].partition("_")[0]

    @asynccontextmanager
    async def sending(self, *sizes):
        """Send bodies of new jobs that do not end inside, and give their answers to come."""
        over = asyncio.Event()

        async def endless(size):
            yield b" " * size
            await over.wait()
            yield b'{"at": 1}'

        async with asyncio.TaskGroup() as group:
            yield [
                group.create_task(self.http.post("/v1/jobs", data=endless(size))) for size in sizes
            ]
            over.set()

    async def post_image(self, body):
        headers = {"Authorization": "Bearer key-1"}
        async with self.http.post("/v1/images/generations", data=body, headers=headers) as answer:
            return await answer.json()

    def held(self, size):
        async def look():
            return self.app.bodies.held.total_bytes == size

        return self.until(look)

    async def homes(self):
        return {tenant: await self.submit(tenant) for tenant in range(len(KEYS))}

    async def until(self, is_so):
        async with asyncio.timeout(120):
            while not await is_so():
                await asyncio.sleep(0.05)

    async def sees(self, **health):
        async def look():
            async with self.http.get("/readyz") as answer:
                said = (await answer.json())["cells"]
            return all(said.get(name) == each for name, each in health.items())

        await self.until(look)

    async def see_all(self, health):
        await self.sees(**dict.fromkeys(self.cells, health))


@pytest.fixture
async def cells(tmp_path):
    async with AsyncExitStack() as stack:
        yield await Cells(tmp_path, ("eu", "us", "as")).open(stack)


async def test_tenants_have_homes_and_their_jobs_are_found_by_their_ids(cells):
    homes = await cells.homes()
    assert set(homes.values()) == {"eu", "us", "as"}
    assert homes == await cells.homes()
    for name, cell in cells.cells.items():
        for job in cell.jobs:
            async with cells.http.get(f"/v1/jobs/{job}") as answer:
                assert (answer.status, answer.headers["Atelier-Cell"]) == (200, name)


async def test_what_a_client_sends_arrives_and_what_is_answered_comes_back(cells):
    home = await cells.submit(1)
    cell = cells.cells[home]
    assert cell.headers["Authorization"] == "Bearer key-1"
    assert cell.headers["X-Forwarded-For"] == "127.0.0.1"
    assert cell.headers["Host"] == f"127.0.0.1:{cells.router.port}"
    async with cells.http.get(f"/v1/jobs/{home}_{'0' * 32}") as answer:
        assert answer.status == 404  # as the cell says


async def test_no_request_takes_bytes_of_the_next_one_on_its_connection(tmp_path):
    packed = gzip.compress(b"")
    job = len(json.dumps({"prompt": "a", "at": 1.0}))
    async with AsyncExitStack() as stack, asyncio.timeout(60):
        cells = await Cells(tmp_path, ("eu",)).open(stack)
        for _ in range(3):
            async with cells.http.get("/v1/jobs", data=b"x" * 300) as answer:
                assert answer.status == 200
            await cells.submit(1)
            headers = {"Content-Encoding": "gzip"}
            async with cells.http.post("/v1/templates", data=packed, headers=headers) as answer:
                assert (await answer.json())["bytes"] == len(packed)
            await cells.submit(2)
        assert cells.cells["eu"].sizes == [0, job, len(packed), job] * 3


async def test_a_job_that_comes_packed_arrives_packed(cells):
    packed = gzip.compress(json.dumps({"template": f"us_{HEX}"}).encode())
    for cell in cells.cells.values():
        cell.went_on.set()
    path, headers = "/v1/images/generations", {"Content-Encoding": "gzip"}
    async with cells.http.post(path, data=packed, headers=headers) as answer:
        assert await answer.json() == {"bytes": len(packed)}


async def test_a_job_may_be_as_large_as_a_cell_takes_it(cells):
    await cells.submit(1, prompt="a" * (MOST - 1000))
    for path in ("/v1/jobs", "/v1/applications"):
        async with cells.http.post(path, json={"prompt": "a" * MOST}) as answer:
            assert (answer.status, answer.content_type) == (413, "application/problem+json")
            assert f"{MOST} bytes" in (await answer.json())["detail"]
    await cells.held(0)


async def test_bodies_that_do_not_end_leave_memory_to_others_and_are_given_up(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(bodies, "MAX_HELD_BYTES", 4 * MOST)
    async with AsyncExitStack() as stack:
        cells = await Cells(tmp_path, ("eu",)).open(stack)
        async with cells.sending(*[MOST - 100] * 3) as answers:
            await cells.held(3 * (MOST - 100))
            for path in ("/v1/jobs", "/v1/applications"):
                async with cells.http.post(path, json={"prompt": "a" * 1000}) as answer:
                    assert (answer.status, "Retry-After" in answer.headers) == (429, True)
                    kind = (await answer.json())["type"]
                    assert kind == "urn:problem-type:atelier:too-many-requests"
        assert [(await each).status for each in answers] == [202] * 3
        await cells.held(0)
        monkeypatch.setattr(incoming, "BODY_S", 0.05)
        async with cells.sending(MOST - 100) as [late]:
            assert (await late).status == 408
            await cells.held(0)


async def test_a_body_that_its_cell_has_is_held_no_more_while_images_are_waited_for(cells):
    sent = json.dumps({"prompt": "a" * (MOST - 1000)}).encode()
    waiting = [asyncio.create_task(cells.post_image(sent)) for _ in range(3)]

    async def all_heard():
        return sum(cell.heard["images"] for cell in cells.cells.values()) == len(waiting)

    await cells.until(all_heard)
    await cells.held(0)
    for cell in cells.cells.values():
        cell.went_on.set()
    assert await asyncio.gather(*waiting) == [{"bytes": len(sent)}] * len(waiting)


async def test_a_router_that_holds_as_much_as_it_can_says_so_and_takes_more_later(tmp_path):
    async with AsyncExitStack() as stack:
        cells = await Cells(tmp_path, ("eu",), requests=2).open(stack)
        waiting = [asyncio.create_task(cells.post_image(b"{}")) for _ in range(2)]

        async def all_heard():
            return cells.cells["eu"].heard["images"] == 2

        await cells.until(all_heard)
        async with cells.http.get("/v1/jobs") as answer:
            assert (answer.status, "Retry-After" in answer.headers) == (503, True)
            assert (await answer.json())["type"] == "urn:problem-type:atelier:router-full"
        async with cells.http.get("/healthz") as answer:
            assert answer.status == 200
        cells.cells["eu"].went_on.set()
        await asyncio.gather(*waiting)
        assert await cells.submit(1) == "eu"


class NoFiles:
    """A session of a process that has no open file left."""

    async def request(self, *asked, **how):
        away = SimpleNamespace(host="cell", port=1, ssl=True)
        raise aiohttp.ClientConnectorError(away, OSError(errno.EMFILE, "Too many open files"))


async def test_no_cell_is_blamed_where_the_router_has_no_file_left(cells):
    cells.app._cells._http = NoFiles()
    for path in (f"/v1/jobs/eu_{'0' * 32}", "/v1/jobs"):
        async with cells.http.get(path) as answer:
            assert (answer.status, "Retry-After" in answer.headers) == (503, True)
            assert (await answer.json())["type"] == "urn:problem-type:atelier:router-full"
    async with cells.http.get("/readyz") as answer:
        assert set((await answer.json())["cells"].values()) == {"ready"}


async def test_events_pass_as_they_come(cells):
    home = await cells.submit(1)
    (job,) = cells.cells[home].jobs
    async with cells.http.get(f"/v1/jobs/{job}/events") as answer:
        assert await answer.content.readline() == b"event: status\n"
        cells.cells[home].went_on.set()
        assert (await answer.content.read()).endswith(b"event: done\n\n")


async def test_uploads_pass_as_they_come_to_the_home_and_jobs_follow_them(cells):
    async def megabytes():
        for _ in range(80):
            yield bytes(2**20)

    headers = {"Authorization": "Bearer key-1"}
    async with cells.http.post("/v1/templates", data=megabytes(), headers=headers) as answer:
        kept = await answer.json()
    assert kept["bytes"] == 80 * 2**20
    home = kept["id"].partition("_")[0]
    assert home == await cells.submit(1)
    for tenant in range(10):  # whoever names it: the cell says whose it is
        assert await cells.submit(tenant, template=kept["id"]) == home


async def test_a_dead_cell_s_tenants_go_elsewhere_and_its_jobs_come_back_with_it(cells):
    before = await cells.homes()
    dead = cells.cells["us"]
    await dead.stop()
    after = await cells.homes()
    assert "us" not in after.values()
    assert {t: h for t, h in after.items() if before[t] != "us"} == {
        t: h for t, h in before.items() if h != "us"
    }
    job = next(iter(dead.jobs))
    async with cells.http.get(f"/v1/jobs/{job}") as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (503, True)
        assert answer.content_type == "application/problem+json"
    async with cells.http.get("/v1/jobs") as answer:
        assert answer.headers["Atelier-Cells-Missing"] == "us"
    await dead.start()
    await cells.sees(us="ready")
    async with cells.http.get(f"/v1/jobs/{job}") as answer:
        assert answer.status == 200
    assert await cells.homes() == before


async def test_a_cell_that_makes_nothing_now_gets_no_new_jobs_and_shows_what_it_has(cells):
    await cells.homes()
    us = cells.cells["us"]
    us.is_ready = False
    await cells.sees(us="answers")
    known = set(us.jobs)
    assert "us" not in (await cells.homes()).values()
    assert set(us.jobs) == known
    async with cells.http.get(f"/v1/jobs/{next(iter(known))}") as answer:
        assert answer.status == 200


async def test_a_cell_is_drained_and_opened_again_by_the_file(cells):
    before = await cells.homes()
    us = cells.cells["us"]
    cells.states = {"us": {"state": "draining"}}
    cells.write()

    async def is_left():
        return "us" not in (await cells.homes()).values()

    await cells.until(is_left)
    job = next(iter(us.jobs))
    async with cells.http.get(f"/v1/jobs/{job}") as answer:
        assert answer.status == 200
    assert await cells.submit(1, template=f"us_{'0' * 32}") == "us"  # nobody else has it
    cells.path.write_text("{")  # a file that cannot be read changes nothing
    await asyncio.sleep(1.5)
    assert await is_left()
    cells.states = {}
    cells.write()

    async def is_back():
        return await cells.homes() == before

    await cells.until(is_back)


async def test_the_heir_of_a_cell_answers_for_what_was_kept_there_and_the_cell_for_its_jobs(cells):
    await cells.homes()
    us, kept = cells.cells["us"], f"us_{'0' * 32}"
    cells.states = {"us": {"state": "draining", "heir": "eu"}}
    cells.write()

    async def is_inherited():
        return await cells.submit(1, template=kept) == "eu"

    await cells.until(is_inherited)
    async with cells.http.get(f"/v1/templates/{kept}") as answer:
        assert answer.headers["Atelier-Cell"] == "eu"
    async with cells.http.get("/v1/templates") as answer:
        shown = {row["id"].partition("_")[0] for row in (await answer.json())["data"]}
    assert shown == {"eu", "as"}
    async with cells.http.get(f"/v1/jobs/{next(iter(us.jobs))}") as answer:
        assert (answer.status, answer.headers["Atelier-Cell"]) == (200, "us")


async def test_a_closed_cell_is_asked_nothing_and_missed_by_nobody(cells):
    await cells.homes()
    kept = f"us_{'0' * 32}"
    cells.states = {
        "us": {"state": "closed", "heir": "as"},
        "as": {"state": "draining", "heir": "eu"},
    }
    cells.write()
    await cells.cells["us"].stop()

    async def is_closed():
        async with cells.http.get("/readyz") as answer:
            return "us" not in (await answer.json())["cells"]

    await cells.until(is_closed)
    assert await cells.submit(1, template=kept) == "eu"  # the heir's heir
    for path, cell in ((f"/v1/templates/{kept}", "eu"), (f"/files/t/templates/{kept}.png", "eu")):
        async with cells.http.get(path) as answer:
            assert answer.headers["Atelier-Cell"] == cell
    async with cells.http.get("/v1/jobs") as answer:
        assert (answer.status, "Atelier-Cells-Missing" in answer.headers) == (200, False)
    async with cells.http.post("/v1/applications", json={"name": "shop"}) as answer:
        assert answer.status == 201


async def test_a_list_shows_the_jobs_of_all_cells_newest_first(cells):
    for at in range(12):
        await cells.submit(at, at=float(at))
    async with cells.http.get("/v1/jobs?limit=10") as answer:
        page = await answer.json()
    assert [job["created_at"] for job in page["data"]] == [float(at) for at in range(11, 1, -1)]
    assert page["cursor"].startswith("2000.")


async def test_a_list_is_without_a_cell_that_cannot_answer_and_names_it(cells):
    await cells.homes()
    us = cells.cells["us"]
    for status in (429, 500, 503):
        us.refuses_with = status
        async with cells.http.get("/v1/jobs?limit=100") as answer:
            assert (answer.status, answer.headers["Atelier-Cells-Missing"]) == (200, "us")
            shown = {row["id"].partition("_")[0] for row in (await answer.json())["data"]}
        assert shown == {"eu", "as"}
    us.refuses_with = 401  # that is about the request
    async with cells.http.get("/v1/jobs") as answer:
        assert (answer.status, (await answer.json())["cell"]) == (401, "us")
    for cell in cells.cells.values():
        cell.refuses_with = 503
    async with cells.http.get("/v1/jobs") as answer:
        assert (answer.status, await answer.json()) == (503, {"status": 503, "cell": "eu"})


async def test_a_list_shows_what_is_copied_already_once_as_its_keeper_tells_it(cells):
    eu, us = cells.cells["eu"], cells.cells["us"]
    us.kept = [{"id": name, "created_at": 2.0, "cell": "us"} for name in (f"us_{HEX}", HEX)]
    eu.kept = [{**row, "cell": "eu"} for row in us.kept]
    async with cells.http.get("/v1/templates") as answer:
        rows = (await answer.json())["data"]
    told = [(row["id"], row["cell"]) for row in rows if "cell" in row]
    assert told == [(f"us_{HEX}", "us"), (HEX, "eu")]  # ids without a cell are the first one's


async def test_what_every_cell_must_know_is_said_to_all_of_them(cells):
    async with cells.http.post("/v1/applications", json={"name": "shop"}) as answer:
        assert answer.status == 201
    assert [cell.heard["shop"] for cell in cells.cells.values()] == [1, 1, 1]
    for tenant in (HEX, f"us_{HEX}"):  # which looks as ids do
        async with cells.http.patch(f"/v1/tenants/{tenant}", json={}) as answer:
            assert answer.status == 200
        assert [cell.heard[tenant] for cell in cells.cells.values()] == [1, 1, 1]
    await cells.cells["us"].stop()
    async with cells.http.post("/v1/applications", json={"name": "shop"}) as answer:
        assert (answer.status, "us" in (await answer.json())["detail"]) == (503, True)


async def test_what_is_about_one_cell_names_it(cells):
    async with cells.http.get("/v1/fleet") as answer:
        assert answer.status == 400
    async with cells.http.get("/v1/fleet", headers={"Atelier-Cell": "mars"}) as answer:
        assert answer.status == 404
    async with cells.http.get("/readyz", headers={"Atelier-Cell": "us"}) as answer:
        assert set((await answer.json())["cells"]) == {"eu", "us", "as"}


async def test_a_cell_that_is_named_changes_nothing_for_ids_and_for_what_all_are_told(cells):
    await cells.homes()
    named = {"Atelier-Cell": "eu"}
    job = next(iter(cells.cells["us"].jobs))
    async with cells.http.get(f"/v1/jobs/{job}", headers=named) as answer:
        assert (answer.status, answer.headers["Atelier-Cell"]) == (200, "us")
    async with cells.http.post("/v1/applications", json={"name": "shop"}, headers=named) as answer:
        assert answer.status == 201
    assert [cell.heard["shop"] for cell in cells.cells.values()] == [1, 1, 1]


async def test_the_share_that_a_home_cannot_serve_is_made_elsewhere(cells):
    cells.states = {name: {"weight": 1.0} for name in cells.cells}
    cells.write()
    for cell in cells.cells.values():
        cell.capacity = {"segments": [{"rate": 5.0, "worth": 0.9}], "demand": 4.0}

    async def is_shared():
        return len({await cells.submit(1) for _ in range(20)}) == 3

    await cells.until(is_shared)  # all of the 12 a second come from one home, which serves 5
    template = "data:image/png;base64,AAAA"
    assert len({await cells.submit(1, template=template) for _ in range(20)}) == 1


async def test_without_any_cell_the_router_says_so(cells):
    for cell in cells.cells.values():
        await cell.stop()
    async with cells.http.post("/v1/jobs", json={"prompt": "a"}) as answer:
        assert (answer.status, "Retry-After" in answer.headers) == (503, True)
    await cells.see_all("away")
    async with cells.http.get("/readyz") as answer:
        assert answer.status == 503
    async with cells.http.get("/v1/jobs") as answer:
        assert answer.status == 503
