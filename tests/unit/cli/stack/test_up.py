import asyncio
import errno
import io
import os
import signal

import pytest

from cli.stack.ports import claim_port, free_port
from cli.stack.supervisor import Supervisor
from cli.stack.up import UnreadConsole, _port, choose_ports, on_signals, teller
from core.errors import ConfigurationError


def test_a_program_whose_usual_port_another_was_given_takes_any(tmp_path):
    port = free_port()
    assert claim_port(port, "api") == port
    assert _port("scheduler", None, port) != port


def test_one_port_for_two_programs_is_refused_with_both_options():
    port = free_port()
    with pytest.raises(ConfigurationError, match=f"--port and --flower-port are both {port}"):
        choose_ports(port, port, workers=1)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EPIPE])
def test_what_cannot_be_said_stops_nothing(number, capfd):
    class Stderr(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(number, os.strerror(number))

    tell = teller(UnreadConsole(file=Stderr()))
    tell("worker-1 ended with -9")
    tell("worker-1 is ready")
    print("the addresses")  # noqa: T201
    assert capfd.readouterr().out == "the addresses\n"


@pytest.fixture
def hanging_up():
    """Have SIGHUP end nobody, whoever handles it."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


def unheard():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_terminal_that_goes_stops_in_order_however_often_it_says_so(tmp_path, hanging_up):
    class Unkillable(Supervisor):
        def kill(self) -> None:
            raise AssertionError("killed")

    stopping = on_signals(Unkillable([], logs=tmp_path, tell=list))
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.wait_for(stopping.wait(), 20.0)
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0.05)
    unheard()


async def test_under_nohup_the_terminal_may_go(tmp_path, hanging_up):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stopping = on_signals(Supervisor([], logs=tmp_path, tell=list))
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0.05)
    assert not stopping.is_set()
    unheard()
