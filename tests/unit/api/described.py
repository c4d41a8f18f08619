"""The API as it describes itself, worked out once for all tests that read it."""

from functools import cache
from typing import Any

from core.settings import Settings
from run.api import create_app


@cache
def described() -> dict[str, Any]:
    """Describe the routes of a service with the settings that it comes with."""
    return create_app(Settings()).openapi()
