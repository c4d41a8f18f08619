from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Forbidden, NotFound, ObjectsUnavailable
from storage.objects.directory import DirectoryStore

KEY = "t/j1/1/0.png"


class Clock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def a_store(root: Path, clock: Clock | None = None, secret: bytes = b"s" * 32) -> DirectoryStore:
    url = "http://127.0.0.1:8000/"
    return DirectoryStore(root, public_url=url, secret=secret, clock=clock or Clock())


def read_url(url: str) -> tuple[str, int, str]:
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    key = unquote(parts.path.removeprefix("/files/"))
    return key, int(query["expires"][0]), query["signature"][0]


def test_a_signed_url_names_its_file_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    store = a_store(tmp_path, clock)
    store.put(KEY, b"png", "image/png")
    url, expires_at = store.url(KEY, 60)
    assert url.startswith("http://127.0.0.1:8000/files/t/j1/1/0.png?") and expires_at == 1060.0
    assert store.verify(*read_url(url)).read_bytes() == b"png"
    clock.now = 1060.0
    with pytest.raises(Forbidden, match="expired"):
        store.verify(*read_url(url))


def test_a_signature_is_good_for_its_key_its_time_and_its_secret_only(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    for key in (KEY, "t/j2/1/0.png"):
        store.put(key, b"png", "image/png")
    key, expires, signature = read_url(store.url(KEY, 60)[0])
    wrong = [
        ("t/j2/1/0.png", expires, signature),
        (key, expires + 1, signature),
        (key, expires, signature[:-1] + ("0" if signature[-1] != "0" else "1")),
        (key, expires, ""),
        (key, expires, "ü" * 64),
    ]
    for attempt in wrong:
        with pytest.raises(Forbidden, match="wrong"):
            store.verify(*attempt)
    with pytest.raises(Forbidden, match="wrong"):
        a_store(tmp_path, secret=b"t" * 32).verify(key, expires, signature)


def test_a_good_signature_of_a_file_that_is_gone_finds_nothing(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    url, _ = store.url(KEY, 60)
    with pytest.raises(NotFound):
        store.verify(*read_url(url))


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    store = a_store(tmp_path / "o")
    store.put(KEY, b"png", "image/png")
    (tmp_path / "o" / "out").symlink_to(tmp_path)
    with pytest.raises(Forbidden):
        store.get("out/secret")


@given(st.text(max_size=40))
def test_no_text_names_a_file_outside_the_root(key: str) -> None:
    root = Path("/nonexistent/root")
    try:
        path = a_store(root)._path(key)
    except (Forbidden, UnicodeEncodeError, OSError):
        return
    assert root in path.parents


def test_deleting_leaves_no_empty_folders(tmp_path: Path) -> None:
    store = a_store(tmp_path / "o")
    store.put(KEY, b"png", "image/png")
    store.put("t/j2/1/0.png", b"png", "image/png")
    store.delete([KEY])
    assert sorted(p.name for p in (tmp_path / "o" / "t").iterdir()) == ["j2"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.put("t/j1/1", b"in the way", "text/plain")
    with pytest.raises(ObjectsUnavailable):
        store.put(KEY, b"png", "image/png")
    assert [p.name for p in (tmp_path / "t" / "j1").iterdir()] == ["1"]


def test_a_write_leaves_one_file(tmp_path: Path) -> None:
    a_store(tmp_path).put(KEY, b"png", "image/png")
    assert [p.name for p in (tmp_path / "t" / "j1" / "1").iterdir()] == ["0.png"]


def test_a_write_that_was_killed_leaves_nothing_behind_its_key(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    store.put("t/j2/1/0.png", b"png", "image/png")
    (tmp_path / "t/j1/1").mkdir(parents=True)
    (tmp_path / "t/j1/1/.0.png.x1y2z3.part").write_bytes(b"half")
    store.delete([KEY])
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["j2"]
