import importlib.metadata
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.app import app
from tests.unit.ops.compose import ROOT, read_compose
from tests.unit.ops.extras import EXTRAS, closure, direct
from tests.unit.ops.imports import PACKAGES, reached

DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
SERVICES = {name: s for name, s in read_compose()["services"].items() if "build" in s}

#: What every worker imports when it starts.
CELERY = "tasks.app,tasks.generate,tasks.jobs.retrain,tasks.jobs.score,tasks.jobs.webhook"
#: What others only name, to send it.
TASKS = frozenset(app.conf.include)
#: Programs that are started where everything is installed.
OTHERS_RUN = frozenset({"run.api", "run.scheduler", "run.upkeep", "worker.checkpoints.convert"})

#: Imports modules while everything that the image does not hold is out of reach.
IMPORT = """
import importlib, sys
missing = set(sys.argv[2].split(","))
class Held:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            return None
        return self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = map(Held, sys.meta_path)
for module in sys.argv[1].split(","):
    importlib.import_module(module)
"""


def installed(dockerfile):
    """What the Dockerfile tells pip to install."""
    lines = [line for line in dockerfile.read_text().splitlines() if "pip install" in line]
    named = [e for line in lines for e in re.findall(r'"\.\[([\w,]+)\]"', line)]
    extras = [extra for names in named for extra in names.split(",")]
    named = [n for line in lines for n in re.findall(r'"\.\[[\w,]+\]"((?: \w+)*)', line)]
    return extras, [name for names in named for name in names.split()]


def held(dockerfile):
    """Every distribution in the image."""
    extras, named = installed(dockerfile)
    return closure([*(r for e in extras for r in direct(e)), *map(Requirement, named)])


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_extras_exist_and_versions_are_those_tested(dockerfile):
    extras, _ = installed(dockerfile)
    assert extras
    assert set(extras) <= EXTRAS.keys()
    for line in dockerfile.read_text().splitlines():
        if "pip install" in line:
            is_exact = "torch==" in line or "--require-hashes" in line
            assert "-c constraints.txt" in line or is_exact


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_images_run_as_nobody_in_particular_and_copy_what_exists(dockerfile):
    text = dockerfile.read_text()
    assert re.findall(r"^USER (\w+)$", text, re.M) == ["atelier"]
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )*(\S+) ", text, re.M):
        assert (ROOT / source).exists()


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_alone_runs_what_one_of_its_services_runs(dockerfile):
    (alone,) = re.findall(r"^CMD (.+)$", dockerfile.read_text(), re.M)
    built = [s for s in SERVICES.values() if ROOT / s["build"]["dockerfile"] == dockerfile]
    assert json.loads(alone) in [service["command"] for service in built]


@pytest.mark.parametrize("name", ["api", "scheduler", "tasks"])
def test_only_workers_carry_torch(name):
    dists = held(ROOT / "docker" / f"{name}.Dockerfile")
    assert not {"torch", "diffusers", "transformers", "nvidia-cublas-cu12"} & dists


def test_the_encoder_is_installed_here_and_in_the_image_by_its_hash():
    (line,) = [x for x in (ROOT / "encoder.txt").read_text().splitlines() if not x.startswith("#")]
    name, version = re.fullmatch(r"(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}", line).groups()
    assert importlib.metadata.version(name) == version
    images = (ROOT / "docker" / f"{image}.Dockerfile" for image in ("scheduler", "cpu"))
    for path in (ROOT / "Makefile", *images):
        assert "--no-deps --require-hashes -r encoder.txt" in path.read_text()


def test_the_torch_of_the_worker_is_the_one_tested():
    pinned = re.search(r"^torch==([\d.]+)$", (ROOT / "constraints.txt").read_text(), re.M)[1]
    for name in ("worker", "cpu"):
        assert f"torch=={pinned}" in (ROOT / "docker" / f"{name}.Dockerfile").read_text()


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_built_from_a_dockerfile_that_exists(name):
    assert ROOT / SERVICES[name]["build"]["dockerfile"] in DOCKERFILES


def missing_in(dists):
    """Top-level modules of this environment that come with none of the distributions."""
    return {
        module
        for module, owners in packages_distributions().items()
        if module not in PACKAGES and not {canonicalize_name(owner) for owner in owners} & dists
    }


@pytest.mark.parametrize(
    ("image", "modules"),
    [
        ("api", "run.api"),
        (
            "scheduler",
            "run.scheduler,storage.vectors.edge,storage.vectors.qdrant,storage.objects.s3",
        ),
        ("tasks", "run.upkeep,tasks.flower,flower.command"),
        ("worker", f"worker.process.serve,{CELERY},cli.main"),
        ("cpu", f"worker.process.serve,{CELERY}"),
    ],
)
def test_an_image_holds_all_that_its_programs_import(image, modules):
    missing = missing_in(held(ROOT / "docker" / f"{image}.Dockerfile"))
    command = [sys.executable, "-c", IMPORT, modules, ",".join(sorted(missing))]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert ended.returncode == 0, ended.stderr[-2000:]


def program(command):
    """The module that a command runs."""
    match command:
        case ["python", "-m", module, *_]:
            return module
        case ["atelier", name, *_]:
            return f"cli.{name}"
    raise AssertionError(command)


@pytest.mark.parametrize("name", SERVICES)
def test_an_image_holds_all_that_its_programs_import_later(name):
    entry = program(SERVICES[name]["command"])
    runs_tasks = entry == "run.worker"
    _, others = reached(entry, without={*(OTHERS_RUN - {entry}), *(() if runs_tasks else TASKS)})
    missing = missing_in(held(ROOT / SERVICES[name]["build"]["dockerfile"]))
    assert others & missing == set()


def test_the_build_context_holds_every_package_and_nothing_secret():
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in lines if line.startswith("!")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "bench"}
    assert packages <= kept
    assert lines[0] == "**"
    assert not any(".env" in line for line in kept)
