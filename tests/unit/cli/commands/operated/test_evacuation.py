"""`atelier cells evacuate`: what it writes into the file of cells, and what it refuses."""

import asyncio
import json

import pytest

from cli.commands.operated.evacuation import change, check, evacuate_cell
from core.errors import ConfigurationError
from core.settings import Settings
from router.cells import parse_cells

CELLS = {"eu": {"url": "http://eu:8000", "weight": 2.0}, "us": {"url": "http://us:8000"}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "cells.json"
    path.write_text(json.dumps(CELLS))
    return path


def test_what_is_changed_is_one_cell_and_no_other(file):
    change(file, "us", state="draining")
    change(file, "us", heir="eu")
    drained = CELLS["us"] | {"state": "draining", "heir": "eu"}
    assert json.loads(file.read_text()) == CELLS | {"us": drained}
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_file_that_says_so_already_is_not_written(file):
    file.parent.chmod(0o500)
    try:
        change(file, "eu", url="http://eu:8000")
    finally:
        file.parent.chmod(0o700)


def test_a_file_that_cannot_be_written_is_told_with_what_to_write(file):
    (file.parent / f".{file.name}.new").mkdir()
    with pytest.raises(ConfigurationError, match=r'write .*"draining".* there, and run this again'):
        change(file, "us", state="draining")
    assert json.loads(file.read_text()) == CELLS


@pytest.mark.parametrize(
    ("leaving", "heir", "fault"),
    [
        (Settings(cell="ap"), Settings(cell="eu"), "'ap' is none of eu, us"),
        (Settings(), Settings(cell="eu"), "'' is none of"),
        (Settings(cell="eu", redis_url="redis://a"), Settings(cell="eu"), "from itself"),
        (Settings(cell="us"), Settings(cell="eu"), "from itself"),
        (Settings(cell="eu", redis_url="redis://a"), Settings(cell="us"), "only an open cell"),
        (Settings(cell="us", redis_url="redis://a"), Settings(cell="eu"), "ATELIER_DATA_DIR"),
    ],
)
def test_what_are_no_two_cells_is_refused_before_anything_is_done(file, leaving, heir, fault):
    change(file, "us", state="draining")
    before = file.read_text()
    with pytest.raises(ConfigurationError, match=fault):
        asyncio.run(evacuate_cell(leaving, heir, file, lambda _: None))
    assert file.read_text() == before


@pytest.mark.parametrize("changed", [{}, {"s3_endpoint": "S3.EU:9000"}, {"data_dir": "/other"}])
def test_two_cells_with_one_bucket_are_refused(file, changed):
    s3 = {"object_backend": "s3", "s3_endpoint": "s3.eu:9000", "s3_bucket": "atelier"}
    leaving = Settings(cell="us", redis_url="redis://a", **s3)
    with pytest.raises(ConfigurationError, match=r"_S3_BUCKET: atelier at s3\.eu:9000 is both"):
        asyncio.run(evacuate_cell(leaving, Settings(cell="eu", **(s3 | changed)), file, print))
    assert json.loads(file.read_text()) == CELLS


@pytest.mark.parametrize("changed", [{"s3_bucket": "eu"}, {"s3_endpoint": "s3.us:9000"}])
def test_two_buckets_are_two_places(file, changed):
    s3 = {"object_backend": "s3", "s3_endpoint": "s3.eu:9000", "s3_bucket": "atelier"}
    leaving = Settings(cell="us", redis_url="redis://a", **s3)
    check(leaving, Settings(cell="eu", **(s3 | changed)), parse_cells(file.read_bytes()))


def test_a_cell_that_has_an_heir_is_handed_over_to_no_other(file):
    said = CELLS | {"ap": {"url": "http://ap:8000"}}
    said["us"] = said["us"] | {"state": "draining", "heir": "eu"}
    file.write_text(json.dumps(said))
    leaving, heir = Settings(cell="us", redis_url="redis://a"), Settings(cell="ap")
    with pytest.raises(ConfigurationError, match="us has an heir, eu"):
        asyncio.run(evacuate_cell(leaving, heir, file, lambda _: None))
    assert json.loads(file.read_text()) == said
