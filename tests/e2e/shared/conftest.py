"""The whole embedded service, started once for all tests here: each leaves it as it was."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from cli.client.client import Client, connect
from cli.stack.running import Running, running
from tests.e2e.lean import one_model


@pytest.fixture(scope="package")
def service(tmp_path_factory) -> Iterator[Running]:
    # Hooks of the tests are on loopback.
    environment = {
        "ATELIER_WEBHOOK_ALLOW_PRIVATE": "true",
        **one_model(tmp_path_factory.mktemp("models")),
    }
    with running(tmp_path_factory.mktemp("service"), env=environment) as service:
        yield service


@pytest.fixture
def client(service) -> Iterator[Client]:
    with connect(service.addresses.api, None) as client:
        yield client


@pytest.fixture
def http(service) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.addresses.api, timeout=30.0) as http:
        yield http


@pytest.fixture
def flower(service) -> Iterator[httpx.Client]:
    auth = json.loads(Path(service.addresses.secrets).read_text())["flower_auth"]
    user, _, password = auth.partition(":")
    options = {"base_url": service.addresses.flower, "timeout": 30.0}
    with httpx.Client(auth=(user, password), **options) as http:
        yield http
