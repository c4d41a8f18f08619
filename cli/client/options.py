"""Command-line options that all client commands share, and the client they ask by."""

from typing import Annotated

import typer

from atelier_client import Client
from atelier_client.exchange.settings import DEFAULT_URL

Url = Annotated[str, typer.Option("--url", envvar="ATELIER_URL", help="The service.")]
Key = Annotated[str | None, typer.Option("--key", envvar="ATELIER_API_KEY", help="API key.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's own JSON.")]

#: Seconds that an answer may take.
PATIENCE_S = 90.0

__all__ = ["DEFAULT_URL", "AsJson", "Key", "Url", "connect"]


def connect(url: str, key: str | None) -> Client:
    """Open a client of the service at `url`: a person is told soon that nobody answers.

    Raises:
        ClientError: no header can carry the key, or the cell's name.
    """
    return Client(url, key, timeout_s=PATIENCE_S, max_retries=1)
