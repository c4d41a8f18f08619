import asyncio
import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3
from pydantic import SecretStr

from cli.stack.ports import free_port
from core.errors import Forbidden, ObjectMissing, ObjectsUnavailable
from core.settings import ObjectBackend, Settings
from storage.fakes import MemoryObjects
from storage.objects.directory import DirectoryStore
from storage.objects.s3 import S3Store
from storage.objects.store import ObjectStore, open_objects, try_writing
from tests.servers import S3_ACCESS_KEY, S3_SECRET_KEY, Server

PNG = b"\x89PNG\r\n" + bytes(range(256)) * 64


def an_s3(endpoint: str, bucket: str = "atelier", secret: str = S3_SECRET_KEY) -> S3Store:
    return S3Store(
        endpoint, access_key=S3_ACCESS_KEY, secret_key=secret, bucket=bucket, is_secure=False
    )


@pytest.fixture(params=["memory", "directory", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "memory":
        return MemoryObjects()
    if request.param == "directory":
        return DirectoryStore(tmp_path / "o", public_url="http://x", secret=b"s" * 32)
    return an_s3(request.getfixturevalue("s3").url)


def test_what_was_put_is_got(objects: ObjectStore) -> None:
    objects.put("t/j1/1/0.png", PNG, "image/png")
    assert objects.get("t/j1/1/0.png") == PNG


def test_putting_again_replaces(objects: ObjectStore) -> None:
    objects.put("t/again/1/0.png", b"old and longer", "image/png")
    objects.put("t/again/1/0.png", b"new", "image/png")
    assert objects.get("t/again/1/0.png") == b"new"


def test_a_file_is_put_from_its_start_whatever_was_read_of_it(objects: ObjectStore) -> None:
    data = bytes(range(256)) * 4 * 2**13  # 8 MiB: more than S3 takes in one part
    file = io.BytesIO(data)
    file.seek(100)
    objects.put_file("t/file/1/0.bin", file, len(data), "application/octet-stream")
    assert objects.get("t/file/1/0.bin") == data


def test_an_empty_object_is_an_object(objects: ObjectStore) -> None:
    objects.put("t/empty/1/0.bin", b"", "application/octet-stream")
    assert objects.get("t/empty/1/0.bin") == b""


@pytest.mark.parametrize("key", ["t/none/1/0.png", "t", "never/1"])
def test_what_was_not_put_is_missing(objects: ObjectStore, key: str) -> None:
    objects.put("t/j2/1/0.png", PNG, "image/png")
    with pytest.raises(ObjectMissing):
        objects.get(key)


def test_deleting_takes_all_named_and_minds_no_missing_one(objects: ObjectStore) -> None:
    keys = [f"t/gone/1/{i}.png" for i in range(3)]
    for key in [*keys, "t/stays/1/0.png"]:
        objects.put(key, PNG, "image/png")
    objects.delete([*keys, "t/gone/9/9.png"])
    objects.delete([])
    for key in keys:
        with pytest.raises(ObjectMissing):
            objects.get(key)
    assert objects.get("t/stays/1/0.png") == PNG


def test_a_folder_lists_all_that_lies_under_it_and_nothing_else(objects: ObjectStore) -> None:
    assert not list(objects.list("nowhere"))
    before = time.time()
    for key in ("a/x/1.bin", "a/y", "ab/z", "b/a/1"):
        objects.put(key, b"12345", "application/octet-stream")
    found = {stored.key: stored for stored in objects.list("a")}
    assert sorted(found) == ["a/x/1.bin", "a/y"]
    for stored in found.values():
        assert stored.num_bytes == 5
        assert before - 2 <= stored.modified_at <= time.time() + 2


def test_a_list_minds_nothing_that_goes_meanwhile(objects: ObjectStore) -> None:
    keys = [f"going/{number}/0.png" for number in range(3)]
    for key in keys:
        objects.put(key, b"a", "image/png")
    listed = iter(objects.list("going"))
    first = next(listed)
    objects.delete(keys)
    assert first.key in keys and {each.key for each in listed} <= set(keys)


def test_a_url_says_when_it_expires(objects: ObjectStore) -> None:
    objects.put("t/j3/1/0.png", PNG, "image/png")
    before = time.time()
    url, expires_at = objects.url("t/j3/1/0.png", 60)
    assert "t/j3/1/0.png" in url
    assert before + 58.0 < expires_at <= time.time() + 61.0


async def test_a_presigned_url_gives_the_object_to_anybody(s3: Server) -> None:
    store = an_s3(s3.url)
    store.put("t/j4/1/0.png", PNG, "image/png")
    store.put("t/j5/1/0.png", PNG, "image/png")
    url, _ = store.url("t/j4/1/0.png", 60)
    brief, _ = store.url("t/j4/1/0.png", 1)
    with urllib3.PoolManager() as http:
        answer = http.request("GET", url)
        assert (answer.status, answer.data) == (200, PNG)
        assert answer.headers["Content-Type"] == "image/png"
        assert http.request("GET", url.replace("Signature=", "Signature=0")).status >= 400
        assert http.request("GET", url.replace("/j4/", "/j5/")).status >= 400
        assert http.request("GET", url.partition("?")[0]).status >= 400
        await asyncio.sleep(2.1)
        assert http.request("GET", brief).status >= 400
        assert http.request("GET", url).status == 200, "it was the second that was over"


def test_a_bucket_that_is_not_there_yet_is_made_at_the_first_write(s3: Server) -> None:
    first, second = an_s3(s3.url, "fresh"), an_s3(s3.url, "fresh")
    with pytest.raises(ObjectMissing):
        first.get("k")
    first.put("k", b"1", "text/plain")
    second.put("l", b"2", "text/plain")
    assert second.get("k") == b"1"


@pytest.mark.parametrize("megabytes", [0, 9])
def test_a_bucket_that_has_gone_is_made_again(s3: Server, megabytes: int) -> None:
    store, data = an_s3(s3.url, bucket="goes"), bytes(1 + megabytes * 2**20)
    store.put("a", b"a", "text/plain")
    store.delete(["a"])
    store._client.delete_bucket(Bucket="goes")
    store.put_file("b", io.BytesIO(data), len(data), "text/plain")
    assert store.get("b") == data
    store.delete(["b"])


def test_a_wrong_secret_is_unavailable(s3: Server) -> None:
    with pytest.raises(ObjectsUnavailable):
        an_s3(s3.url, secret="wrong" * 4).put("k", b"1", "text/plain")


def test_an_endpoint_that_is_away_is_unavailable() -> None:
    store = an_s3(f"127.0.0.1:{free_port()}")
    for attempt in (
        lambda: store.put("k", b"1", "text/plain"),
        lambda: store.get("k"),
        lambda: store.delete(["k"]),
    ):
        with pytest.raises(ObjectsUnavailable):
            attempt()


def test_settings_choose_the_store(s3: Server, tmp_path: Path) -> None:
    common = Settings(
        data_dir=tmp_path,
        url_secret=SecretStr("s" * 32),
        s3_endpoint=s3.url,
        s3_access_key=S3_ACCESS_KEY,
        s3_secret_key=SecretStr(S3_SECRET_KEY),
    )
    stores = {
        backend: open_objects(common.model_copy(update={"object_backend": backend}))
        for backend in ObjectBackend
    }
    assert isinstance(stores[ObjectBackend.DIRECTORY], DirectoryStore)
    assert isinstance(stores[ObjectBackend.S3], S3Store)
    for store in stores.values():
        store.put("t/settings/1/0.png", PNG, "image/png")
        assert store.get("t/settings/1/0.png") == PNG


@pytest.mark.parametrize("key", ["../out", "a/../../out", "/etc/passwd", "", ".", "a\0b"])
def test_no_key_leads_out_of_the_folder(tmp_path: Path, key: str) -> None:
    store = DirectoryStore(tmp_path / "o", public_url="http://x", secret=b"s" * 32)
    with pytest.raises(Forbidden):
        store.put(key, b"x", "text/plain")
    with pytest.raises(Forbidden):
        store.get(key)
    with pytest.raises(Forbidden):
        store.delete([key])


def test_deleting_before_anything_was_stored_is_no_error(s3: Server) -> None:
    an_s3(s3.url, bucket="never-made").delete(["t/j1/1/0.png"])


def test_a_trial_write_leaves_nothing(objects: ObjectStore) -> None:
    try_writing(objects)
    assert list(objects.list("readyz")) == []


def test_a_folder_that_cannot_be_written_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("no folder")
    with pytest.raises(ObjectsUnavailable):
        try_writing(DirectoryStore(tmp_path / "full", public_url="http://x", secret=b"s"))


@contextmanager
def refusing(status: int) -> Iterator[str]:
    """Serve an S3 that answers reads and refuses to write."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(200)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            self._answer(status)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("status", [403, 404, 507])
def test_an_s3_that_cannot_be_written_is_found_out(status: int) -> None:
    with refusing(status) as endpoint, pytest.raises(ObjectsUnavailable):
        try_writing(an_s3(endpoint))
