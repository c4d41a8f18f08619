import asyncio
from dataclasses import replace

import pytest

from core.errors import NotFound, TooManyRequests
from core.uploads.lora import KeptLora, lora_key
from core.uploads.upload import Upload, UploadKind
from tests.contract.house import MAX_UPLOADS, House

FILE, TEMPLATE = UploadKind.FILE, UploadKind.TEMPLATE


def an_upload(upload_id: str = "u1", kind: UploadKind = TEMPLATE, tenant: str = "t") -> Upload:
    return Upload(
        id=upload_id,
        kind=kind,
        tenant=tenant,
        key=f"{tenant}/{kind}s/{upload_id}.png",
        content_type="image/png",
        width=64,
        height=96,
        size_bytes=1234,
        sha256="ab" * 32,
    )


async def add(house: House, *ids: str) -> None:
    for name in ids:
        await house.uploads.add(an_upload(name))
        await asyncio.sleep(0.002)  # so that their times differ


async def test_what_was_added_is_got_with_its_time(house: House) -> None:
    kept = await house.uploads.add(an_upload())
    assert kept.created_at > 1e9
    assert kept == replace(an_upload(), created_at=kept.created_at)
    assert await house.uploads.get(TEMPLATE, "u1", "t") == kept


async def test_adding_again_changes_nothing(house: House) -> None:
    first = await house.uploads.add(an_upload())
    await asyncio.sleep(0.002)
    assert (await house.uploads.add(an_upload())).created_at == first.created_at
    assert len((await house.uploads.list(TEMPLATE, "t")).uploads) == 1


@pytest.mark.parametrize(
    ("kind", "upload_id", "tenant"),
    [(TEMPLATE, "u2", "t"), (TEMPLATE, "u1", "other"), (TEMPLATE, "u1", ""), (FILE, "u1", "t")],
)
async def test_nobody_else_sees_it_and_nobody_else_removes_it(
    house: House, kind: UploadKind, upload_id: str, tenant: str
) -> None:
    await house.uploads.add(an_upload())
    with pytest.raises(NotFound):
        await house.uploads.get(kind, upload_id, tenant)
    with pytest.raises(NotFound):
        await house.uploads.remove(kind, upload_id, tenant)
    assert (await house.uploads.list(kind, tenant)).uploads == () or (kind, tenant) == (
        TEMPLATE,
        "t",
    )
    assert (await house.uploads.get(TEMPLATE, "u1", "t")).id == "u1"


async def test_what_is_removed_is_gone(house: House) -> None:
    await add(house, "u1", "u2")
    await house.uploads.remove(TEMPLATE, "u1", "t")
    with pytest.raises(NotFound):
        await house.uploads.get(TEMPLATE, "u1", "t")
    with pytest.raises(NotFound):
        await house.uploads.remove(TEMPLATE, "u1", "t")
    assert [u.id for u in (await house.uploads.list(TEMPLATE, "t")).uploads] == ["u2"]


async def test_uploads_are_listed_newest_first_a_page_at_a_time(house: House) -> None:
    await add(house, "u1", "u2", "u3", "u4")
    await house.uploads.add(an_upload("f1", FILE))
    first = await house.uploads.list(TEMPLATE, "t", limit=2)
    assert [u.id for u in first.uploads] == ["u4", "u3"]
    await house.uploads.remove(TEMPLATE, "u3", "t")
    rest = await house.uploads.list(TEMPLATE, "t", limit=2, cursor=first.cursor)
    assert ([u.id for u in rest.uploads], rest.cursor) == (["u2", "u1"], None)
    assert [u.id for u in (await house.uploads.list(FILE, "t")).uploads] == ["f1"]


async def test_a_tenant_keeps_no_more_than_it_may(house: House) -> None:
    await add(house, *(f"u{i}" for i in range(MAX_UPLOADS)))
    with pytest.raises(TooManyRequests, match="delete some"):
        await house.uploads.add(an_upload("more"))
    await house.uploads.add(an_upload("other", tenant="other"))
    await house.uploads.add(an_upload("file", FILE))
    await house.uploads.remove(TEMPLATE, "u0", "t")
    await house.uploads.add(an_upload("more"))


async def test_loras_are_kept_beside_images_and_known_by_their_ids(house: House) -> None:
    lora = KeptLora(
        id="l1",
        tenant="t",
        key=lora_key("t", "l1"),
        models=("small", "large"),
        num_layers=3,
        bound=10,
        size_bytes=5,
        sha256="ab",
    )
    kept = await house.loras.add(lora)
    await add(house, "u1")
    assert kept == replace(lora, created_at=kept.created_at)
    assert await house.loras.get(UploadKind.LORA, "l1", "t") == kept
    assert (await house.loras.list(UploadKind.LORA, "t")).uploads == (kept,)
    with pytest.raises(NotFound):
        await house.uploads.get(TEMPLATE, "l1", "t")
    assert await house.loras.known(["l1", "l2"]) == {"l1"}
    await house.loras.remove(UploadKind.LORA, "l1", "t")
    assert await house.loras.known(["l1"]) == set()
