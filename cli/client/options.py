"""Command-line options that all client commands share."""

from typing import Annotated

import typer

Url = Annotated[str, typer.Option("--url", envvar="ATELIER_URL", help="The service.")]
Key = Annotated[str | None, typer.Option("--key", envvar="ATELIER_API_KEY", help="API key.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the service's own JSON.")]

DEFAULT_URL = "http://127.0.0.1:8000"
