"""Data folder of a stack: objects, job store files, logs, secrets; exclusively locked."""

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.errors import ConfigurationError


def _operator_key() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What the programs of one stack share and nobody else may know."""

    url_secret: str  #: signs file URLs
    webhook_secret: str  #: signs webhooks: `whsec_` and base64
    flower_auth: str  #: `user:password`
    #: By which `atelier up` looks at the fleet of a service with keys; an operator may use it.
    operator_key: str = field(default_factory=_operator_key)


def make_secrets() -> Secrets:
    """Draw new secrets."""
    return Secrets(
        url_secret=secrets.token_urlsafe(32),
        webhook_secret="whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
        flower_auth=f"atelier:{secrets.token_urlsafe(16)}",
    )


def keep_secrets(folder: Path) -> Secrets:
    """Read the secrets of a data folder; at the first time make them, readable by us alone."""
    path = folder / "secrets.json"
    if not path.exists():
        made = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(made, "w", encoding="utf-8") as file:
            json.dump(asdict(make_secrets()), file, indent=2)
    try:
        return Secrets(**json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


@contextmanager
def hold(folder: Path) -> Iterator[Path]:
    """Hold a data folder, ours alone: two stacks on one would destroy each other's files.

    Raises:
        ConfigurationError: another stack holds it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(f"{folder} is in use by another `atelier up`") from error
        yield folder
