"""What tenants keep is copied from one real store to another, whatever happens between."""

import asyncio
import json
from dataclasses import replace

import pytest

from cli.commands.operated.evacuation import evacuate_cell
from core.errors import ConfigurationError, ObjectsUnavailable
from core.settings import Settings
from core.tenants.limits import TenantLimits
from core.uploads.controlnet import KeptControlNet, manifest_key, weights_key
from core.uploads.upload import Upload, UploadKind
from storage.objects.directory import DirectoryStore
from storage.redis.connect import connect
from storage.tenants.evacuation import KeptThings, copy_kept
from storage.tenants.uploads import UploadStore
from tests.servers import redis_server

pytestmark = pytest.mark.integration

HEX = "0123456789abcdef" * 2


class Cell:
    """One store of records, one of objects, and what is asked of them."""

    def __init__(self, name, url, folder):
        self.redis = connect(url)
        self.objects = DirectoryStore(folder, public_url="http://h", secret=b"secret")
        self.things = KeptThings(cell=name, redis=self.redis, objects=self.objects)
        self.images = UploadStore(self.redis, Upload, max_uploads=200)
        self.controlnets = UploadStore(self.redis, KeptControlNet, max_uploads=5)

    async def keep(self, upload_id=f"us_{HEX}", tenant="acme", data=b"pixels"):
        key = f"{tenant}/templates/{upload_id}.png"
        self.objects.put(key, data, "image/png")
        upload = Upload(
            id=upload_id,
            kind=UploadKind.TEMPLATE,
            tenant=tenant,
            key=key,
            content_type="image/png",
            width=8,
            height=8,
            size_bytes=len(data),
            sha256="ab" * 32,
        )
        return await self.images.add(upload)

    async def kept(self, tenant="acme"):
        return (await self.images.list(UploadKind.TEMPLATE, tenant, limit=200)).uploads

    async def remove(self, upload):
        self.objects.delete([upload.key])
        await self.images.remove(upload.kind, upload.id, upload.tenant)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    running = [redis_server(tmp_path_factory.mktemp(name)) for name in ("us", "eu")]
    yield running
    for server in running:
        server.stop()


@pytest.fixture
async def cells(servers, tmp_path):
    names = ("us", "eu")
    cells = [
        Cell(name, server.url, tmp_path / name / "objects")
        for name, server in zip(names, servers, strict=True)
    ]
    for cell in cells:
        await cell.redis.flushall()
    yield cells
    for cell in cells:
        await cell.redis.aclose()


async def test_all_that_all_tenants_keep_is_there_under_its_id_and_its_moment(cells):
    us, eu = cells
    for i in range(120):  # more than a page
        await us.keep(f"us_{i:032x}", data=str(i).encode())
    await us.keep(f"us_{HEX}", tenant="a:b")
    before = await us.kept()
    report = await copy_kept(us.things, eu.things)
    assert (report.copied, report.removed, report.unreadable) == (121, 0, ())
    assert await eu.kept() == before == await us.kept()
    assert {eu.objects.get(each.key) for each in before} == {str(i).encode() for i in range(120)}
    assert len(await eu.kept("a:b")) == 1
    assert (await copy_kept(us.things, eu.things)).copied == 0


async def test_weights_come_with_what_says_how_they_are_read(cells):
    us, eu = cells
    name = f"us_{HEX}"
    us.objects.put(weights_key(name), b"weights", "application/octet-stream")
    us.objects.put(manifest_key(name), b"{}", "application/json")
    kept = KeptControlNet(
        id=name, tenant="t", key=weights_key(name), models=("m",), size_bytes=7, sha256=""
    )
    kept = await us.controlnets.add(kept)
    await copy_kept(us.things, eu.things)
    assert await eu.controlnets.get(UploadKind.CONTROLNET, name, "t") == kept
    assert eu.objects.get(manifest_key(name)) == b"{}"


async def test_what_is_copied_counts_as_bytes_of_its_tenant_whose_limit_refuses_none_of_it(cells):
    us, eu = cells
    for i in range(3):
        await us.keep(f"us_{i:032x}")
    await copy_kept(us.things, eu.things)
    assert await eu.redis.hget("account:acme", "bytes") == b"18"
    more = replace((await us.kept())[0], id=f"eu_{HEX}")
    with pytest.raises(Exception, match="18 bytes"):
        await eu.images.add(more, TenantLimits(kept_bytes=18))


async def test_what_either_side_deletes_later_is_deleted_and_not_copied_again(cells):
    us, eu = cells
    here, there = await us.keep(f"us_{1:032x}"), await us.keep(f"us_{2:032x}")
    await copy_kept(us.things, eu.things)
    await us.remove(here)
    await eu.remove(there)
    report = await copy_kept(us.things, eu.things)
    assert (report.copied, report.removed) == (0, 1)
    assert await eu.kept() == ()
    assert not list(eu.objects.list("acme"))
    assert (await copy_kept(us.things, eu.things)).removed == 0


async def test_who_is_stopped_on_the_way_goes_on_where_it_was(cells):
    us, eu = cells
    for i in range(6):
        await us.keep(f"us_{i:032x}")

    class Failing(DirectoryStore):
        left = 3

        def put(self, key, data, content_type):
            if not self.left:
                raise ObjectsUnavailable("no")
            self.left -= 1
            super().put(key, data, content_type)

    failing = Failing(eu.objects._root, public_url="http://h", secret=b"secret")
    with pytest.raises(ObjectsUnavailable):
        await copy_kept(us.things, replace(eu.things, objects=failing))
    assert len(await eu.kept()) == 3
    assert (await copy_kept(us.things, eu.things)).copied == 3
    assert len(await eu.kept()) == 6


async def test_a_record_whose_object_is_lost_is_named_and_holds_up_nobody(cells):
    us, eu = cells
    lost, _ = await us.keep(f"us_{1:032x}"), await us.keep(f"us_{2:032x}")
    await asyncio.to_thread(us.objects.delete, [lost.key])
    report = await copy_kept(us.things, eu.things)
    assert (report.copied, report.unreadable, report.is_begun) == (1, (lost.id,), True)
    assert (await copy_kept(us.things, eu.things)).is_begun


async def test_another_heir_is_given_what_the_first_one_had(cells):
    us, eu = cells
    for i in range(3):
        await us.keep(f"us_{i:032x}")
    await copy_kept(us.things, eu.things)
    await eu.redis.flushall()
    another = replace(eu.things, cell="ap")
    assert (await copy_kept(us.things, another)).copied == 3
    assert await eu.kept() == await us.kept()
    assert (await copy_kept(us.things, another)).copied == 0


async def test_no_heir_is_named_where_nothing_of_what_is_kept_can_be_read(cells, servers, tmp_path):
    us, eu = cells
    await us.keep()
    file = tmp_path / "cells.json"
    file.write_text(json.dumps({name: {"url": f"http://{name}:8000"} for name in ("us", "eu")}))
    leaving, heir = (
        Settings(cell=name, redis_url=server.url, data_dir=tmp_path / name, url_secret="secret")
        for name, server in zip(("us", "eu"), servers, strict=True)
    )
    elsewhere = leaving.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    with pytest.raises(ConfigurationError, match="none of the 1 things that tenants keep in us"):
        await evacuate_cell(elsewhere, heir, file, lambda _: None)
    said = json.loads(file.read_text())["us"]
    assert (said["state"], "heir" in said, await eu.kept()) == ("draining", False, ())
    await copy_kept(us.things, eu.things)
    assert len(await eu.kept()) == 1
