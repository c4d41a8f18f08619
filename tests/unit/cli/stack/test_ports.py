import socket
import subprocess
import sys

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


def test_two_programs_never_get_one_port():
    port = claim_port(0, "api")
    for asked in (port, claim_port(free_port(), "flower")):
        with pytest.raises(ConfigurationError, match=f"port {asked} for scheduler"):
            claim_port(asked, "scheduler")


def test_a_port_claimed_by_another_process_is_refused_while_that_lives():
    program = "import sys; from cli.stack.ports import claim_port\n"
    program += "print(claim_port(0, 'api'), flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], text=True, **pipes) as other:
        port = int(other.stdout.readline())
        with pytest.raises(ConfigurationError, match="for api"):
            claim_port(port, "api")
        other.kill()
    assert claim_port(port, "api") == port
