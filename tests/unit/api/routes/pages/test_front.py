import hashlib
import re
from pathlib import Path

import pytest

from tests.unit.api.conftest import Stack

ROOT = Path(__file__).parents[5]
SOURCES, BUILT = ROOT / "page", ROOT / "api/page"
NOTED = SOURCES / "built.sha256"
#: What `make page` fetches and derives.
DERIVED = {"openapi.json", "schema.d.ts", NOTED.name}
MAX_BYTES = 500_000


def files() -> list[Path]:
    found = [path for folder in (SOURCES, BUILT) for path in folder.rglob("*") if path.is_file()]
    return [p for p in found if "node_modules" not in p.parts and p.name not in DERIVED]


def test_the_page_is_built_from_the_sources_beside_it() -> None:
    lines = (line.split(maxsplit=1) for line in NOTED.read_text().splitlines())
    noted = {name: digest for digest, name in lines}
    found = {
        path.relative_to(ROOT).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files()
    }
    assert found == noted, "the page in api/page is not what page/ says: `make page`"


def test_no_class_is_styled_by_two_views() -> None:
    """Styles of a view stay when it is left: another's of the same name would change it."""
    styled: dict[str, set[str]] = {}
    for sheet in (SOURCES / "src").rglob("*.css"):
        view = sheet.relative_to(SOURCES / "src").parts[0]
        for name in re.findall(r"^\s*\.([a-z][\w-]*)", sheet.read_text(), re.MULTILINE):
            styled.setdefault(name, set()).add(view)
    assert {"job", "model", "worker"} & styled.keys()
    shared = {"components", "styles", "charts", "shell"}
    assert {name: views for name, views in styled.items() if len(views - shared) > 1} == {}


def test_all_of_the_page_is_light() -> None:
    assert sum(path.stat().st_size for path in BUILT.rglob("*") if path.is_file()) <= MAX_BYTES


async def test_whatever_the_page_names_is_served_under_a_name_that_may_be_kept(stack) -> None:
    async with stack.client() as client:
        page = await client.get("/")
        names = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page.text)
        assert len(names) >= 3
        assert page.headers["Cache-Control"] == "no-cache"
        for name in names:
            part = await client.get(f"/{name}")
            assert part.status_code == 200
            assert "immutable" in part.headers["Cache-Control"]
            assert re.search(r"-[\w-]{8}\.\w+$", name)


@pytest.mark.parametrize(
    ("ending", "media_type"),
    [(".js", "text/javascript"), (".css", "text/css"), (".woff2", "font/woff2")],
)
async def test_browsers_are_told_what_each_part_is(stack, ending, media_type) -> None:
    name = next(path.name for path in BUILT.rglob(f"*{ending}"))
    async with stack.client() as client:
        part = await client.get(f"/assets/{name}")
    assert part.headers["Content-Type"].startswith(media_type)


@pytest.mark.parametrize(
    ("ending", "is_packed"), [(".js", True), (".css", True), (".woff2", False)]
)
async def test_what_gets_smaller_is_packed_for_who_reads_that(stack, ending, is_packed) -> None:
    path = next(path for path in BUILT.rglob(f"*{ending}") if path.stat().st_size > 1000)
    async with stack.client() as client:
        for accepted in ("gzip, br", "identity"):
            headers = {"Accept-Encoding": accepted}
            part = await client.get(f"/assets/{path.name}", headers=headers)
            packed = part.headers.get("Content-Encoding") == "gzip"
            assert packed == (is_packed and accepted != "identity")
            assert (int(part.headers["Content-Length"]) < path.stat().st_size) == packed
            assert part.headers["Vary"] == "Accept-Encoding"
            assert part.content == path.read_bytes()


@pytest.mark.parametrize("name", ["gone-12345678.js", "..%2Findex.html", "%2e%2e%2fpage"])
async def test_nothing_else_is_served(stack, name) -> None:
    async with stack.client() as client:
        assert (await client.get(f"/assets/{name}")).status_code == 404


def policy_of(response) -> dict[str, str]:
    said = response.headers["Content-Security-Policy"]
    return dict(part.split(" ", 1) for part in said.split("; "))


async def test_the_page_runs_and_loads_its_own_alone(stack) -> None:
    async with stack.client() as client:
        policy = policy_of(await client.get("/"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert "unsafe" not in " ".join(policy.values())


async def test_images_may_come_from_the_store_that_signs_their_urls(tmp_path) -> None:
    stored = {"object_backend": "s3", "s3_endpoint": "images.test:9000", "s3_is_secure": True}
    async with Stack(tmp_path, **stored).client() as client:
        policy = policy_of(await client.get("/"))
    assert "https://images.test:9000" in policy["img-src"].split()
    assert "https://images.test:9000" in policy["connect-src"].split()
