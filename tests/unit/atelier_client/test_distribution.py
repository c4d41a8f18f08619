"""What `pip install atelier-images-client` puts into an environment."""

import shutil
import subprocess
import sys
import tomllib
import zipfile

import pytest

from atelier_client.exchange.settings import VERSION
from run.api import VERSION as SERVICE
from tests.unit.ops.compose import ROOT

PYPROJECT = tomllib.loads((ROOT / "atelier_client/pyproject.toml").read_text())
PROJECT, TOOL = PYPROJECT["project"], PYPROJECT["tool"]["setuptools"]


def test_every_room_is_named_and_the_service_has_the_same_version():
    assert {name.replace(".", "/") for name in TOOL["packages"]} == {
        str(path.parent.relative_to(ROOT))
        for path in (ROOT / "atelier_client").rglob("__init__.py")
    }
    assert VERSION == SERVICE


@pytest.mark.long
def test_the_wheel_brings_one_name_that_is_typed_and_nothing_of_the_service(tmp_path):
    shutil.copytree(ROOT / "atelier_client", tmp_path / "source")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", tmp_path, tmp_path / "source"], check=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    modules = {name for name in names if ".dist-info/" not in name}
    own = {p.relative_to(ROOT) for p in (ROOT / "atelier_client").rglob("*.py")}
    assert modules == {str(path) for path in own} | {"atelier_client/py.typed"}


def test_it_depends_on_three_small_libraries():
    assert [each.split(">")[0] for each in PROJECT["dependencies"]] == [
        "httpx",
        "msgspec",
        "standardwebhooks",
    ]
    assert PROJECT["name"] == "atelier-images-client"
