"""A link carries what it is given, and loses what it is told to lose."""

import socket
import threading
from contextlib import suppress

import pytest

from bench.nemesis.link import Link


@pytest.fixture
def echo():
    """A server that says everything back."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    threading.Thread(target=back, args=(connection,), daemon=True).start()

        def back(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                while data := connection.recv(100):
                    connection.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def link(echo):
    link = Link(echo)
    yield link
    link.close()


@pytest.fixture
def client(link):
    with socket.create_connection(("127.0.0.1", link.port), 5.0) as client:
        yield client


def says(client, text):
    client.sendall(text)
    return client.recv(100)


def hears_nothing(client):
    client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.recv(100)
    client.settimeout(5.0)


def test_what_is_sent_arrives(client):
    assert says(client, b"one") == b"one"
    assert says(client, b"two") == b"two"


def test_a_link_that_is_cut_ends_its_connections_and_takes_new_ones(link, client):
    assert says(client, b"one") == b"one"
    link.cut()
    assert client.recv(100) == b""
    with socket.create_connection(("127.0.0.1", link.port), 5.0) as again:
        assert says(again, b"two") == b"two"


def test_where_a_link_is_parted_words_wait_until_it_is_healed(link, client):
    assert says(client, b"one") == b"one"
    link.part()
    client.sendall(b"two")
    hears_nothing(client)
    link.heal()
    assert client.recv(100) == b"two"


def test_a_deaf_link_carries_no_answers_and_ends_when_it_is_healed(link, client):
    assert says(client, b"one") == b"one"
    link.is_deaf = True
    client.sendall(b"two")
    hears_nothing(client)
    link.heal()
    assert client.recv(100) == b""
