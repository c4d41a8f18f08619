"""S3 object store; clients get its presigned URLs."""

import io
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, BinaryIO

import boto3
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from core.errors import ObjectMissing, ObjectsUnavailable
from storage.objects.store import Stored

REGION = "us-east-1"  #: given, so that signing a URL asks nobody
CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 20.0
MISSING = ("NoSuchKey", "NoSuchBucket", "NoSuchObject", "404")
MADE_ALREADY = ("BucketAlreadyOwnedByYou", "BucketAlreadyExists")
MAX_DELETED = 1000  #: objects that one request may name

#: Parts are sent one after the other: callers have threads of their own.
_ONE_BY_ONE = TransferConfig(use_threads=False)


class S3Store:
    """Objects in one bucket, which is created at the first write."""

    def __init__(
        self, endpoint: str, *, access_key: str, secret_key: str, bucket: str, is_secure: bool
    ) -> None:
        """Prepare; nothing is sent. Any thread may use it."""
        self._bucket = bucket
        self._has_bucket = False
        url = f"{'https' if is_secure else 'http'}://{endpoint}"
        self._client: Any = client_of(url, access_key, secret_key)

    def put(self, key: str, data: bytes, content_type: str) -> None:
        """Store one object."""
        self.put_file(key, io.BytesIO(data), len(data), content_type)

    def put_file(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        """Store a file, in parts if it is large."""
        with _converting_errors(
            key, missing=ObjectsUnavailable
        ):  # it is the bucket that is missing
            try:
                self._upload(key, file, size_bytes, content_type)
            except (ClientError, Boto3Error) as error:
                if "NoSuchBucket" not in str(error):
                    raise
                self._has_bucket = False  # it has gone since: it is made again
                self._upload(key, file, size_bytes, content_type)

    def get(self, key: str) -> bytes:
        """Read one object."""
        with _converting_errors(key):
            found = self._client.get_object(Bucket=self._bucket, Key=key)
            with found["Body"] as body:
                return bytes(body.read())

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, up to a thousand a request."""
        doomed = [{"Key": key} for key in keys]
        with suppress(ObjectMissing), _converting_errors("the bucket"):
            for at in range(0, len(doomed), MAX_DELETED):
                named = {"Objects": doomed[at : at + MAX_DELETED], "Quiet": True}
                answer = self._client.delete_objects(Bucket=self._bucket, Delete=named)
                serious = [e for e in answer.get("Errors", ()) if e["Code"] not in MISSING]
                if serious:
                    raise ObjectsUnavailable(f"{len(serious)} not deleted: {serious[0]['Code']}")

    def list(self, folder: str) -> Iterator[Stored]:
        """List a folder, up to a thousand objects a request."""
        pages = self._client.get_paginator("list_objects_v2")
        with suppress(ObjectMissing), _converting_errors(folder):
            for page in pages.paginate(Bucket=self._bucket, Prefix=f"{folder}/"):
                for each in page.get("Contents", ()):
                    modified_at = each["LastModified"].timestamp()
                    yield Stored(key=each["Key"], num_bytes=each["Size"], modified_at=modified_at)

    def url(self, key: str, ttl_s: int, epoch: int = 0) -> tuple[str, float]:
        """Presign a GET; nobody can take it back before it expires."""
        with _converting_errors(key):
            url = self._client.generate_presigned_url(
                "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=ttl_s
            )
        return str(url), float(int(time.time()) + ttl_s)

    def _upload(self, key: str, file: BinaryIO, size_bytes: int, content_type: str) -> None:
        self._ensure_bucket()
        file.seek(0)
        named = {"Bucket": self._bucket, "Key": key}
        if size_bytes < _ONE_BY_ONE.multipart_threshold:
            self._client.put_object(**named, Body=file.read(), ContentType=content_type)
            return
        extra = {"ContentType": content_type}
        self._client.upload_fileobj(file, **named, ExtraArgs=extra, Config=_ONE_BY_ONE)

    def _ensure_bucket(self) -> None:
        if self._has_bucket:
            return
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except ClientError as error:
            if _code_of(error) not in MISSING:
                raise
            self._make_bucket()
        self._has_bucket = True

    def _make_bucket(self) -> None:
        try:
            self._client.create_bucket(Bucket=self._bucket)
        except ClientError as error:  # somebody else was faster
            if _code_of(error) not in MADE_ALREADY:
                raise


@cache
def client_of(url: str, access_key: str, secret_key: str) -> Any:  # noqa: ANN401, boto3 has no types
    """Open the client of a server once: it takes a tenth of a second, and any thread may use it."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=url,
        aws_access_key_id=access_key or "none",  # else it looks for others on this machine
        aws_secret_access_key=secret_key or "none",
        region_name=REGION,
        config=_config(),
    )


def _config() -> Config:
    return Config(
        signature_version="s3v4",
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=16,
        retries={"mode": "standard", "total_max_attempts": 4},
        s3={"addressing_style": "path"},
        # Not every S3 server knows the checksums that Amazon's own adds by default.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


@contextmanager
def _converting_errors(key: str, missing: type[Exception] = ObjectMissing) -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        if _code_of(error) in MISSING:
            raise missing(key) from error
        said = error.response.get("Error", {}).get("Message", "")
        raise ObjectsUnavailable(f"{_code_of(error)}: {said}") from error
    except (BotoCoreError, Boto3Error, OSError, ValueError) as error:
        raise ObjectsUnavailable(type(error).__name__) from error


def _code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
