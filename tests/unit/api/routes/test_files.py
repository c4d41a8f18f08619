import pytest

from storage.fakes import MemoryObjects

PNG = b"\x89PNG" + bytes(range(256))


@pytest.fixture
def url(stack):
    stack.objects.put("default/j/1/0.png", PNG, "image/png")
    return stack.objects.url("default/j/1/0.png", 60)[0]


async def test_a_signed_url_serves_the_image(client, url):
    response = await client.get(url)
    assert response.content == PNG
    assert response.headers["content-type"] == "image/png"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["cache-control"].startswith("private, max-age=")
    assert response.headers["content-disposition"].startswith("inline")


@pytest.mark.parametrize(("ending", "kind"), [("jpg", "jpeg"), ("webp", "webp"), ("avif", "avif")])
async def test_other_formats_are_shown_as_what_they_are(client, stack, ending, kind):
    stack.objects.put(f"default/j/1/0.{ending}", PNG, f"image/{kind}")
    response = await client.get(stack.objects.url(f"default/j/1/0.{ending}", 60)[0])
    assert response.headers["content-type"] == f"image/{kind}"
    assert response.headers["content-disposition"].startswith("inline")


async def test_the_head_is_the_same_without_the_body(client, url):
    response = await client.head(url)
    assert response.status_code == 200
    assert response.headers["content-length"] == str(len(PNG))
    assert response.content == b""


async def test_a_part_of_a_file_can_be_fetched(client, url):
    response = await client.get(url, headers={"Range": "bytes=4-7"})
    assert response.status_code == 206
    assert response.content == PNG[4:8]
    assert response.headers["content-range"] == f"bytes 4-7/{len(PNG)}"


async def test_a_range_beyond_the_file_cannot_be_satisfied(client, url):
    response = await client.get(url, headers={"Range": "bytes=9999-"})
    assert response.status_code == 416
    assert response.headers["content-range"] == f"bytes */{len(PNG)}"
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == 416


@pytest.mark.parametrize(
    "text", ["bytes=x", "bytes=9-2", "lines=0-1", "bytes", "bytes=-" + "9" * 5000]
)
async def test_a_range_that_cannot_be_read_is_a_problem_like_any_other(client, url, text):
    response = await client.get(url, headers={"Range": text})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


async def test_a_file_is_not_sent_in_thousands_of_parts(client, url):
    response = await client.get(url, headers={"Range": "bytes=" + ",".join(["0-0", "2-2"] * 9)})
    assert response.status_code == 416 and "at most 16 ranges" in response.text


async def test_the_page_is_never_sent_in_parts(client):
    response = await client.get("/", headers={"Range": "bytes=x"})
    assert response.status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("0.png", "1.png"),
        lambda url: url.replace("expires=", "expires=1"),
        lambda url: url[:-1] + ("0" if url[-1] != "0" else "1"),
        lambda url: url.partition("?")[0],
        lambda url: url.partition("&")[0],
        lambda url: url.replace("expires=", "expires=x"),
        lambda url: url.replace("expires=", "expires=" + "9" * 30),
        lambda url: url.replace("signature=", "signature=%C3%BC"),
        lambda url: url.replace("/default/", "/%2e%2e/default/"),
        lambda url: url.replace("/default/", "/..%2f..%2fetc/"),
    ],
)
async def test_a_wrong_signature_is_forbidden(client, url, change):
    response = await client.get(change(url))
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"


async def test_an_expired_signature_is_forbidden(client, stack, url):
    expired = stack.objects.url("default/j/1/0.png", -10)[0]
    response = await client.get(expired)
    assert response.status_code == 403
    assert "expired" in response.json()["detail"]


async def test_nothing_is_served_before_it_is_known_which_urls_were_revoked(client, stack, url):
    tenants = stack.services.tenants
    tenants.__init__(tenants._store, stack.settings)  # as after a start while the store is away
    refused = await client.get(url)
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    await tenants.refresh()
    assert (await client.get(url)).content == PNG


async def test_a_file_that_is_gone_is_not_found(client, stack, url):
    stack.objects.delete(["default/j/1/0.png"])
    assert (await client.get(url)).status_code == 404


async def test_signatures_are_never_logged(client, url, logs):
    signature = url.partition("signature=")[2]
    await client.get(url)
    await client.get(url.replace("0.png", "1.png"))
    assert len(logs) == 2
    assert signature not in repr(logs)


async def test_another_object_store_serves_its_own_files(stack):
    stack.objects = MemoryObjects()
    async with stack.client() as client:
        assert (await client.get("/files/a.png?expires=1&signature=x")).status_code == 404
