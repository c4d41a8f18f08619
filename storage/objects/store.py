"""Object store interface, and its backends by configuration."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from typing import BinaryIO, Protocol

from core.errors import ConfigurationError
from core.settings import ObjectBackend, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a store says of one object."""

    key: str
    num_bytes: int
    modified_at: float  #: epoch s, by the store's clock


class ObjectStore(Protocol):
    """Bytes by key. Keys are `/`-separated and never reused: callers put a fence in them."""

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Store an object; it is there as a whole, or not at all.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """

    def put_file(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        """Store what a file holds, from its start, without having all of it in memory.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """

    def get(self, key: str) -> bytes:
        """Read an object.

        Raises:
            ObjectMissing: there is none.
            ObjectsUnavailable: the store cannot serve now.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; one that is missing is no error.

        Raises:
            ObjectsUnavailable: the store cannot serve now; some may be gone.
        """

    def list(self, folder: str) -> Iterator[Stored]:
        """List what lies under a folder, in any order.

        Raises:
            ObjectsUnavailable: the store cannot serve now.
        """

    def url(self, key: str, ttl_s: int, epoch: int = 0) -> tuple[str, float]:
        """Sign a URL that anybody may read until it expires (epoch s).

        It is taken back by asking for a later epoch of it, where the api serves what it names; a
        URL of S3 cannot be.
        """


def try_writing(objects: ObjectStore) -> None:
    """Write something small and remove it again.

    Raises:
        ObjectsUnavailable: the store cannot be written now.
    """
    key = f"readyz/{token_hex(8)}"
    objects.put(key, b"ready", "text/plain")
    objects.delete([key])


def open_objects(settings: Settings) -> ObjectStore:
    """Open the store that the settings name; nothing is sent until it is used.

    Raises:
        ConfigurationError: a secret is missing; it names the variable.
    """
    if settings.object_backend is ObjectBackend.S3:
        from storage.objects.s3 import S3Store

        return S3Store(
            settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            bucket=settings.s3_bucket,
            is_secure=settings.s3_is_secure,
        )
    from storage.objects.directory import DirectoryStore

    secret = settings.url_secret.get_secret_value()
    if not secret:
        raise ConfigurationError("ATELIER_URL_SECRET: needed to sign file URLs")
    folder = settings.data_dir / "objects"
    return DirectoryStore(folder, public_url=settings.public_url, secret=secret.encode())
