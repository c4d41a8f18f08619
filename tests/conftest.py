"""What every test runs under: offline, one thread, the same draws; and what stays together."""

import gc
import os
import random
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

#: No example fails for having taken long: what else runs on a machine is not ours to say.
UNHURRIED = {"database": None, "deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# What a stranger runs draws the same examples each time. `make test-slow` and CI draw others, and
# more of them where a test does not say how many, from a seed that they print.
settings.register_profile("same", derandomize=True, **UNHURRIED)
settings.register_profile("explore", max_examples=300, print_blob=True, **UNHURRIED)
settings.load_profile("same")


def pytest_addoption(parser):
    parser.addoption("--docs-images", action="store_true", help="write pictures into docs/images")


@pytest.fixture(autouse=True)
def same_draws():
    """Whoever draws without a seed of its own draws the same, whatever ran before."""
    random.seed(0)
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        # `torch.manual_seed` notes for each device that is not there yet who asked: a millisecond.
        torch.default_generator.manual_seed(0)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays to the end: to look for garbage among it took 7 % of all CPU time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: Folders whose tests share what takes long to start: one process runs them all.
SHARING = ("tests/e2e/shared/",)


class LoadSharing(LoadFileScheduling):
    """A file is handed out as a whole, and a folder that shares a service too."""

    def _split_scope(self, nodeid: str) -> str:
        sharing = [folder for folder in SHARING if nodeid.startswith(folder)]
        return sharing[0] if sharing else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return LoadSharing(config, log) if config.getoption("dist") == "loadfile" else None
