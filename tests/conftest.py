"""What every test runs under: offline, one thread, loopback only; and what stays together."""

import gc
import os

import pytest
from xdist.scheduler import LoadFileScheduling

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DIFFUSERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


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
