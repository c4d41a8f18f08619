"""Data folder of a stack: objects, job store files, logs, secrets; exclusively locked."""

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

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
    """Read the secrets of a data folder; what it lacks is made and kept, readable by us alone.

    Who else asks meanwhile waits, and gets the same. What only another version knows stays.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    path = folder / "secrets.json"
    with (folder / "secrets.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            found = _read(path)
            kept = make_secrets() if found is None else msgspec.convert(found, Secrets)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from error
        whole = {**(found or {}), **asdict(kept)}
        if whole != found:
            _write(path, whole)
    return kept


def _read(path: Path) -> dict[str, object] | None:
    """Read the fields of a file; None: there are none, as where the disk was full at its making."""
    text = path.read_bytes() if path.exists() else b""
    return msgspec.json.decode(text, type=dict[str, object]) if text else None


def _write(path: Path, fields: Mapping[str, object]) -> None:
    """Write a file beside and put it in place whole, whenever we are killed."""
    beside = path.with_suffix(".part")
    beside.unlink(missing_ok=True)  # of somebody who was
    made = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(made, "w", encoding="utf-8") as file:
        json.dump(fields, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


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
