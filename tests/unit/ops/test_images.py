import importlib.metadata
import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
from packaging.utils import canonicalize_name

from tasks.app import app
from tests.cases import rarely, rarely_but
from tests.unit.ops.compose import ROOT, read_compose
from tests.unit.ops.extras import closure, direct
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


LOCKS = ROOT / "docker" / "locks"
#: What torch brings, that of the package index also CUDA's libraries: tests run with another.
TORCHS = re.compile("(nvidia-|cuda-)|(triton|setuptools)$")
#: Of each lock the extras that `make locks` writes it for.
LOCKED = {
    name: re.findall(r"--extra (\w+)", options)
    for options, name in re.findall(
        r"^\t\$\(LOCK\) (.*) -o docker/locks/(\w+)\.txt$", (ROOT / "Makefile").read_text(), re.M
    )
}
#: `name==version` and the hashes of its files.
PINNED = re.compile(r"^(\S+)==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.M)


def pins(lock):
    """What a lock has, each distribution with its version."""
    text = (LOCKS / f"{lock}.txt").read_text()
    found = {canonicalize_name(name): version for name, version, _ in PINNED.findall(text)}
    assert PINNED.sub("", text) == "", "a line without a hash"
    return found


def held(dockerfile):
    """Every distribution in the image."""
    return {*pins(dockerfile.stem)}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)
def test_an_image_takes_nothing_but_by_hash(dockerfile):
    text = dockerfile.read_text().replace("\\\n", " ")
    installs = re.findall(r"pip install (.*?)(?=&&|$)", text, re.M)
    by_hash = [each for each in installs if "--require-hashes" in each]
    (ours,) = [each for each in installs if "--require-hashes" not in each]
    assert ours.split() == ["--no-cache-dir", "--no-deps", "--no-index", "/wheels/*.whl"]
    files = [re.findall(r"-r (\S+)", each) for each in by_hash]
    own = f"locks/{dockerfile.stem}.txt"
    assert files[:2] == [["locks/build.txt"], [own]]
    assert files[2:] in ([], [["encoder.txt"]])
    assert re.findall(r"^FROM (\S+)", text, re.M) == ["${PYTHON}"] * 2
    assert text.index("--require-hashes") < text.index("COPY . .")


@pytest.mark.parametrize("image", [path.stem for path in DOCKERFILES])
def test_a_lock_has_what_its_extras_need_in_the_versions_tested(image):
    """If not: make locks."""
    found, extras = pins(image), LOCKED[image]
    needed = closure([each for extra in extras for each in direct(extra)])
    assert needed <= found.keys()
    tested = dict(
        line.split(" ")[0].split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    tested = {canonicalize_name(name): version for name, version in tested.items()}
    others = {
        name: version
        for name, version in found.items()
        if version.partition("+")[0] != tested.get(name)
    }
    assert not [name for name in others if not TORCHS.match(name)], others


def test_every_image_has_a_lock_and_every_lock_an_image():
    files = {path.stem for path in LOCKS.glob("*.txt")} - {"build", "tools"}
    assert files == {path.stem for path in DOCKERFILES} == LOCKED.keys()
    for name in ("build", "tools"):
        asked = {re.split("[>=]", line)[0] for line in (LOCKS / f"{name}.in").read_text().split()}
        assert asked <= pins(name).keys()


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


@pytest.mark.parametrize("name", ["api", "router", "scheduler", "tasks"])
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
        assert pins(name)["torch"].partition("+")[0] == pinned


def test_the_image_for_a_gpu_has_torch_for_one_and_what_builds_kernels():
    """A lock that has once had a torch for CPUs keeps it: delete its line, then make locks."""
    found = pins("worker")
    assert "+" not in found["torch"], "PyPI has no such file"
    assert {"triton", "nvidia-cublas", "nvidia-nccl-cu13"} <= found.keys()
    assert "triton" not in pins("cpu")


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
        *rarely([("router", "run.router"), ("cpu", f"worker.process.serve,{CELERY}")]),
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


@pytest.mark.parametrize("name", rarely_but(["api", "scheduler"], SERVICES))
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
