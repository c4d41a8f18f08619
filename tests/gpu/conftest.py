"""Tests that need CUDA: `pytest -m gpu tests/gpu`. Without it nothing here is collected.

`--device cpu` runs on a CPU what does not ask CUDA itself, so that nothing here goes stale.
"""

import warnings
from contextlib import contextmanager

import pytest
import torch


def pytest_addoption(parser):
    parser.addoption("--device", default="cuda", help="`cpu`: a dry run of tests/gpu")


def device_of(config):
    return config.getoption("--device", default="cuda")


def pytest_ignore_collect(collection_path, config):
    is_test = collection_path.name.startswith("test_")
    return (is_test and device_of(config) == "cuda" and not torch.cuda.is_available()) or None


def pytest_collection_modifyitems(config, items):
    """On a CPU: one case of each test that can run there."""
    if device_of(config) == "cpu":
        able = [item for item in items if "asks_cuda" not in item.keywords]
        first = {item.nodeid.partition("[")[0]: item for item in reversed(able)}.values()
        config.hook.pytest_deselected(items=[item for item in items if item not in first])
        items[:] = [item for item in items if item in first]


@pytest.fixture(scope="session")
def device(request):
    return device_of(request.config)


@pytest.fixture(scope="session")
def compiling(device):
    """How models are compiled: on a CPU, captured and run as they are."""
    return {} if device == "cuda" else {"backend": "eager"}


@pytest.fixture(autouse=True)
def exact_float32():
    """Float32 means float32: TF32 would add differences of 1e-3 between batch sizes."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


@pytest.fixture
def no_wait():
    """Gives a context in which nothing may make the host wait for the device."""

    @contextmanager
    def context():
        with warnings.catch_warnings(action="ignore"):  # it warns once that it is a prototype
            torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return context
