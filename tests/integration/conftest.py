"""What rings workers: the store, or RabbitMQ. One suite runs over both."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.servers import VIRTUAL_HOSTS, rabbitmq_server

#: Gives the variables of one service more; each has its own of whatever is behind.
Ringing = Callable[[], dict[str, str]]


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ringing]:
    server, numbers = rabbitmq_server(tmp_path_factory.mktemp("rabbitmq")), count()
    yield lambda: {"ATELIER_BROKER_URL": f"{server.url}/v{next(numbers) % VIRTUAL_HOSTS}"}
    server.stop()


@pytest.fixture(scope="module", params=["store", pytest.param("rabbitmq", marks=pytest.mark.long)])
def ringing(request: pytest.FixtureRequest) -> Ringing:
    """Ring workers over each, in turn."""
    found: Ringing = dict if request.param == "store" else request.getfixturevalue("rabbitmq")
    return found
