import tomllib

from setuptools import find_packages

from tests.unit.ops.compose import ROOT
from tests.unit.ops.imports import reached

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = PYPROJECT["tool"]
ENTRIES = ("cli.main", "run.api", "run.scheduler", "run.upkeep", "run.worker")


def test_the_wheel_has_all_that_its_programs_import_and_neither_zoo_nor_benches():
    include = TOOLS["setuptools"]["packages"]["find"]["include"]
    packages = set(find_packages(str(ROOT), include=include))
    ours, others = reached(*ENTRIES)
    folders = {name.rpartition(".")[0] or name for name in ours}
    assert folders - packages == set()
    assert not {"zoo", "bench", "tests"} & ({name.partition(".")[0] for name in packages} | others)


def test_the_service_is_never_uploaded_and_takes_nobody_else_s_name():
    """`api` and `core` would land in any environment; `atelier` of the index is another's."""
    project = PYPROJECT["project"]
    assert "Private :: Do Not Upload" in project["classifiers"]
    assert project["name"] == "atelier-images"
