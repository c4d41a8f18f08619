"""S3 object store; clients get its presigned URLs."""

import io
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import BinaryIO

import urllib3
from minio import Minio
from minio.deleteobjects import DeleteObject
from minio.error import MinioException, S3Error

from core.errors import ObjectMissing, ObjectsUnavailable
from storage.objects.store import Stored

REGION = "us-east-1"  #: given, so that signing a URL asks nobody
CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 20.0
MISSING = ("NoSuchKey", "NoSuchBucket", "NoSuchObject")


class S3Store:
    """Objects in one bucket, which is created at the first write."""

    def __init__(
        self, endpoint: str, *, access_key: str, secret_key: str, bucket: str, is_secure: bool
    ) -> None:
        self._bucket = bucket
        self._has_bucket = False
        self._client = Minio(
            endpoint,
            access_key=access_key,
            secret_key=secret_key,
            secure=is_secure,
            region=REGION,
            http_client=_http(),
        )

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Store one object."""
        self.put_file(key, io.BytesIO(data), len(data), content_type)

    def put_file(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        """Store a file, in parts if it is large."""
        with _converting_errors(key):
            self._ensure_bucket()
            file.seek(0)
            self._client.put_object(self._bucket, key, file, size_bytes, content_type=content_type)

    def get(self, key: str) -> bytes:
        """Read one object."""
        with _converting_errors(key):
            response = self._client.get_object(self._bucket, key)
            try:
                return bytes(response.read())
            finally:
                response.close()
                response.release_conn()

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, up to a thousand a request."""
        with suppress(ObjectMissing), _converting_errors("the bucket"):
            doomed = [DeleteObject(key) for key in keys]
            errors = list(self._client.remove_objects(self._bucket, doomed))
            serious = [e for e in errors if e.code not in MISSING]
            if serious:
                raise ObjectsUnavailable(f"{len(serious)} not deleted: {serious[0].code}")

    def list(self, folder: str) -> Iterator[Stored]:
        """List a folder, up to a thousand objects a request."""
        with suppress(ObjectMissing), _converting_errors(folder):
            for each in self._client.list_objects(self._bucket, f"{folder}/", recursive=True):
                modified_at = each.last_modified.timestamp() if each.last_modified else 0.0
                yield Stored(
                    key=str(each.object_name), num_bytes=each.size or 0, modified_at=modified_at
                )

    def url(self, key: str, ttl_s: int, epoch: int = 0) -> tuple[str, float]:
        """Presign a GET; nobody can take it back before it expires."""
        with _converting_errors(key):
            url = self._client.presigned_get_object(
                self._bucket, key, expires=timedelta(seconds=ttl_s)
            )
        return str(url), float(int(time.time()) + ttl_s)

    def _ensure_bucket(self) -> None:
        if self._has_bucket:
            return
        if not self._client.bucket_exists(self._bucket):
            try:
                self._client.make_bucket(self._bucket)
            except S3Error as error:  # somebody else was faster
                if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                    raise
        self._has_bucket = True


def _http() -> urllib3.PoolManager:
    timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
    retries = urllib3.Retry(total=3, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504])
    return urllib3.PoolManager(timeout=timeout, maxsize=16, retries=retries)


@contextmanager
def _converting_errors(key: str) -> Iterator[None]:
    try:
        yield
    except S3Error as error:
        if error.code in MISSING:
            raise ObjectMissing(key) from error
        raise ObjectsUnavailable(f"{error.code}: {error.message}") from error
    except (MinioException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        # the client reads errors of type `application/xml` only; rclone says `text/xml`
        if any(f"<Code>{code}</Code>" in str(error) for code in MISSING):
            raise ObjectMissing(key) from error
        raise ObjectsUnavailable(type(error).__name__) from error
