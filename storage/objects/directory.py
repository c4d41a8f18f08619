"""Object store in a folder, served by the api through signed URLs."""

import hashlib
import hmac
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from typing import BinaryIO
from urllib.parse import quote

from core.errors import Forbidden, NotFound, ObjectMissing, ObjectsUnavailable
from storage.objects.store import Stored

TRIES = 3  #: of a write whose folder is removed by a delete at the same moment


class DirectoryStore:
    """Objects as files under one root. Several processes may share it."""

    def __init__(
        self,
        root: Path,
        *,
        public_url: str,
        secret: bytes,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root = Path(os.path.realpath(root))
        self._public_url = public_url.rstrip("/")
        self._secret = secret
        self._clock = clock

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Write beside the place, sync, and rename: a reader sees all of it or nothing."""
        self.put_file(key, BytesIO(data), len(data), content_type)

    def put_file(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        """Copy a file in the same way."""
        path = self._path(key)
        with _converting_errors():
            for _ in range(TRIES - 1):
                with suppress(FileNotFoundError):
                    return _write(path, file)
            _write(path, file)

    def get(self, key: str) -> bytes:
        """Read one file."""
        with _converting_errors():
            try:
                return self._path(key).read_bytes()
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
                raise ObjectMissing(key) from error

    def delete(self, keys: Iterable[str]) -> None:
        """Remove files, what killed writes left of them, and the folders they leave empty."""
        with _converting_errors():
            for path in map(self._path, keys):
                with suppress(FileNotFoundError, NotADirectoryError):
                    path.unlink()
                for part in path.parent.glob(f".{escape(path.name)}.*.part"):
                    part.unlink(missing_ok=True)
                self._prune(path.parent)

    def list(self, folder: str) -> Iterator[Stored]:
        """Walk a folder; what is being written, or goes meanwhile, is not there."""
        with _converting_errors():
            for at, _, names in os.walk(self._path(folder), onerror=_unless_it_has_gone):
                for name in names:
                    with suppress(FileNotFoundError):
                        if not name.startswith("."):
                            yield self._stored(Path(at, name))

    def url(self, key: str, ttl_s: int, epoch: int = 0) -> tuple[str, float]:
        """Sign `/files/<key>` of the api."""
        expires = int(self._clock()) + ttl_s
        query = f"expires={expires}&signature={self.sign(key, expires, epoch)}"
        query += f"&epoch={epoch}" if epoch else ""
        return f"{self._public_url}/files/{quote(key)}?{query}", float(expires)

    def verify(
        self, key: str, expires: int, signature: str, epoch: int = 0, least_epoch: int = 0
    ) -> Path:
        """Find the file that a signed URL names.

        Raises:
            Forbidden: the signature is wrong or has expired, or was taken back: it is of an epoch
                before `least_epoch`.
            NotFound: the file is gone.
        """
        expected = self.sign(key, expires, epoch).encode()
        if not hmac.compare_digest(expected, signature.encode("utf-8", "replace")):
            raise Forbidden("the signature is wrong")
        if expires <= self._clock():
            raise Forbidden("the signature has expired")
        if epoch < least_epoch:
            raise Forbidden("the URL was taken back: ask for the job again, for a new one")
        path = self._path(key)
        if not path.is_file():
            raise NotFound("the file is gone")
        return path

    def sign(self, key: str, expires: int, epoch: int = 0) -> str:
        """Authenticate one key until one moment (epoch s)."""
        said = f"GET\n{key}\n{expires}" + (f"\n{epoch}" if epoch else "")
        return hmac.new(self._secret, said.encode(), hashlib.sha256).hexdigest()

    def _path(self, key: str) -> Path:
        """Find the place of a key, which is always inside the root, links followed."""
        if not key or "\0" in key:
            raise Forbidden("the key is not one of this store")
        path = Path(os.path.realpath(self._root / key))
        if self._root not in path.parents:
            raise Forbidden("the key is not one of this store")
        return path

    def _stored(self, path: Path) -> Stored:
        status, key = path.stat(), str(path.relative_to(self._root))
        return Stored(key=key, num_bytes=status.st_size, modified_at=status.st_mtime)

    def _prune(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _write(path: Path, data: BinaryIO) -> None:
    data.seek(0)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            copyfileobj(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:  # it is there no more, unless something went wrong
        Path(beside).unlink(missing_ok=True)


def _unless_it_has_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextmanager
def _converting_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObjectsUnavailable(error.strerror or str(error)) from error
