"""An image over HTTP from a host of this machine, which must be allowed to be called."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from api.intake.fetch import fetch
from core.errors import ImageRefused

pytestmark = pytest.mark.integration


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path.removeprefix("/to?"))
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"x" * int(self.path.removeprefix("/")))

    def log_message(self, *args):
        return None


class Server(HTTPServer):
    def handle_error(self, request, client_address):
        """Callers hang up on purpose here."""


@pytest.fixture
def url():
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def get(url, *, allow_private=True):
    return await fetch(url, max_bytes=1000, timeout_s=10.0, allow_private=allow_private)


async def test_an_image_is_read_across_a_redirect(url):
    assert await get(f"{url}/to?/1000") == b"x" * 1000


async def test_a_host_that_sends_too_much_is_cut_off(url):
    with pytest.raises(ImageRefused, match="larger than 1000 bytes"):
        await get(f"{url}/100000000")


async def test_a_private_host_is_not_called_unless_that_is_allowed(url):
    with pytest.raises(ImageRefused, match="is not fetched"):
        await get(f"{url}/10", allow_private=False)


async def test_a_port_where_nobody_listens_is_told():
    with pytest.raises(ImageRefused, match="does not answer"):
        await get("http://127.0.0.1:1/a.png")


@pytest.mark.parametrize("to", ["http://[::1", "http://a..b/", "http://xn--a/", "//"])
async def test_a_redirect_that_nobody_can_read_is_told(url, to):
    with pytest.raises(ImageRefused):
        await get(f"{url}/to?{to}")
