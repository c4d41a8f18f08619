import socket

import pytest

from cli.stack.ports import HOST, claim_port, free_port
from core.errors import ConfigurationError


def test_port_zero_takes_a_free_one():
    assert claim_port(0, "api") > 1024


def test_a_port_somebody_listens_on_is_refused():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match="for api"):
            claim_port(taken.getsockname()[1], "api")


def test_a_free_port_can_be_claimed():
    port = free_port()
    assert claim_port(port, "api") == port


def test_a_program_listens_on_the_port_that_was_kept_for_it():
    port = free_port()
    with socket.create_server((HOST, port)), socket.create_connection((HOST, port)) as met:
        assert met.getpeername() == (HOST, port)


def test_a_kept_port_is_nobody_elses():
    kept = {free_port() for _ in range(200)}
    assert len(kept) == 200
    with socket.create_server((HOST, 0), backlog=300) as server:
        address = server.getsockname()
        outgoing = [socket.create_connection(address) for _ in range(100)]
        taken = {each.getsockname()[1] for each in outgoing}
        for each in outgoing:
            each.close()
    assert not kept & taken
