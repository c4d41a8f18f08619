"""A webhook over TLS goes to the address we chose, under the name the client wrote."""

import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from tasks.jobs.post import post

pytestmark = pytest.mark.integration

#: Certificate and key of `hook.test`, which exists nowhere; good for a hundred years.
PEM = Path(__file__).parent / "hook.test.pem"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.hosts.append(self.headers["host"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * 10_000_000)

    def log_message(self, *args):
        return None


class Server(HTTPServer):
    def handle_error(self, request, client_address):
        """Callers hang up on purpose here."""


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Handler) as server:
        server.hosts, server.names = [], []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        context.sni_callback = lambda _, name, __: server.names.append(name)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


async def loopback(host, port):
    return ["127.0.0.1"]


async def call(server, name):
    return await post(
        f"https://{name}:{server.server_address[1]}/hook",
        b"{}",
        {"content-type": "application/json"},
        timeout_s=10.0,
        allow_private=True,
        resolve=loopback,
        trust=ssl.create_default_context(cafile=str(PEM)),
    )


async def test_the_name_is_in_sni_and_host_though_the_address_was_ours_to_choose(server):
    answer = await call(server, "hook.test")
    assert answer.status == 200
    assert server.names == ["hook.test"]
    assert server.hosts == [f"hook.test:{server.server_address[1]}"]


async def test_a_certificate_of_another_name_is_not_trusted(server):
    with pytest.raises(httpx.ConnectError, match="certificate"):
        await call(server, "other.test")
    assert server.hosts == []


async def test_a_receiver_that_does_not_answer_is_given_up_in_time():
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, pytest.raises(TimeoutError):
        await post(
            f"http://hook.test:{listener.getsockname()[1]}/",
            b"{}",
            {},
            timeout_s=0.2,
            allow_private=True,
            resolve=loopback,
        )
