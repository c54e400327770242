"""Deep storage in an S3 bucket: conditional creation, multipart for large files, retries, a hard deadline per call.

The only importer of boto3. A file is created with ``If-None-Match: *``, also when a multipart upload is
completed, so that a key never changes its bytes; its SHA-256 goes along as metadata, which tells a repeated
push from a collision without reading the file back.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnection

from segments.data_segment import LoadSpec
from segments.errors import (
    KeyTaken,
    SegmentNotFound,
    ServiceError,
    StorageMisconfigured,
    StorageUnavailable,
    UploadUncertain,
)
from segments.storage.base import StoredFile, require_type
from segments.storage.durable import disk_error, make_directories, replace_durably, sync_file, temporary_beside
from segments.storage.layout import check_key

MULTIPART_BYTES = 16 << 20
_READ_BYTES = 1 << 20
_BACKOFF_FIRST_MS = 200
_BACKOFF_LAST_MS = 10_000
# The server or a proxy in front of it asks for another try, or a concurrent write to the same key does.
_RETRYABLE_CODES = frozenset(
    ["RequestTimeout", "SlowDown", "Throttling", "ThrottlingException", "RequestTimeTooSkewed", "InternalError"]
    + ["ServiceUnavailable", "ConditionalRequestConflict", "OperationAborted", "BadDigest", "IncompleteBody"]
)
_MISSING_CODES = frozenset(["404", "NoSuchKey", "NotFound"])
_BUCKET_LOOKUP = "look-up of bucket"
_EXISTS_CODES = frozenset(["412", "PreconditionFailed"])

T = TypeVar("T")
Parts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where the bucket is. Credentials come by boto3's usual chain unless both keys are given.

    ``prefix`` is a folder inside the bucket, without slashes at its ends. ``endpoint_url`` selects an
    S3-compatible server and path-style addresses. ``call_deadline_ms`` bounds every push and every pull as a
    whole, retries included.
    """

    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    call_deadline_ms: int = 600_000
    connect_timeout_ms: int = 5_000
    read_timeout_ms: int = 30_000


class S3DeepStorage:
    """The port on a bucket. Safe for many threads.

    ``monotonic_ms`` and ``wait_ms`` are the clock's: this module reads no time of its own.
    """

    def __init__(self, settings: S3Settings, monotonic_ms: Callable[[], int], wait_ms: Callable[[int], None]) -> None:
        """Contacts nobody; ``check`` does.

        Raises:
            StorageMisconfigured: the settings cannot be those of a bucket.
        """
        self._settings = settings
        self._monotonic_ms = monotonic_ms
        self._wait_ms = wait_ms
        self._prefix = f"{check_key(settings.prefix)}/" if settings.prefix else ""
        try:
            self._client: Any = boto3.client(
                "s3",
                endpoint_url=settings.endpoint_url,
                region_name=settings.region or ("us-east-1" if settings.endpoint_url else None),
                aws_access_key_id=settings.access_key,
                aws_secret_access_key=settings.secret_key,
                config=Config(
                    connect_timeout=settings.connect_timeout_ms / 1000,
                    read_timeout=settings.read_timeout_ms / 1000,
                    # Retries are made here, where the deadline is known.
                    retries={"total_max_attempts": 1},
                    s3={"addressing_style": "path" if settings.endpoint_url else "auto"},
                    max_pool_connections=16,
                ),
            )
        except (BotoCoreError, ValueError) as error:
            raise StorageMisconfigured(f"deep_storage settings for S3 are wrong: {error}") from error

    def load_spec(self, key: str) -> LoadSpec:
        return {"type": "s3", "bucket": self._settings.bucket, "key": self._prefix + check_key(key)}

    def push(self, local: Path, key: str) -> LoadSpec:
        load_spec = self.load_spec(key)
        bucket, full_key = require_type(load_spec, "s3", "bucket", "key")
        deadline_ms = self._deadline_ms()
        try:
            with local.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            size_bytes = local.stat().st_size
            upload = _Upload(bucket, full_key, local, digest)
            if size_bytes > MULTIPART_BYTES:
                self._push_parts(upload, deadline_ms)
            else:
                self._push_whole(upload, deadline_ms)
        except OSError as error:
            raise disk_error(error, local, "reading") from error
        return load_spec

    def pull(self, load_spec: LoadSpec, dest: Path) -> None:
        bucket, key = require_type(load_spec, "s3", "bucket", "key")

        def once() -> None:
            answer = self._client.get_object(Bucket=bucket, Key=key)
            with temporary_beside(dest) as (file, temporary):
                for block in answer["Body"].iter_chunks(_READ_BYTES):
                    file.write(block)
                if file.tell() != answer["ContentLength"]:
                    raise StorageUnavailable(f"pull of s3://{bucket}/{key} ended after {file.tell()} bytes")
                sync_file(file)
                replace_durably(temporary, dest)

        try:
            make_directories(dest.parent)
            self._retrying(f"pull of s3://{bucket}/{key}", once, self._deadline_ms())
        except OSError as error:
            raise disk_error(error, dest, "pulling to") from error

    def delete(self, load_spec: LoadSpec) -> None:
        bucket, key = require_type(load_spec, "s3", "bucket", "key")
        what = f"deletion of s3://{bucket}/{key}"
        self._retrying(what, lambda: self._client.delete_object(Bucket=bucket, Key=key), self._deadline_ms())

    def exists(self, load_spec: LoadSpec) -> bool:
        bucket, key = require_type(load_spec, "s3", "bucket", "key")
        return self._head(bucket, key, self._deadline_ms()) is not None

    def list(self, prefix: str = "") -> Iterator[StoredFile]:
        bucket, token = self._settings.bucket, None
        while True:
            continued: dict[str, str] = {"ContinuationToken": token} if token else {}

            def page(extra: dict[str, str] = continued) -> dict[str, Any]:
                answer: dict[str, Any] = self._client.list_objects_v2(
                    Bucket=bucket, Prefix=self._prefix + prefix, **extra
                )
                return answer

            answer = self._retrying(f"listing of s3://{bucket}/{self._prefix}{prefix}", page, self._deadline_ms())
            for item in answer.get("Contents", []):
                key = item["Key"].removeprefix(self._prefix)
                load_spec: LoadSpec = {"type": "s3", "bucket": bucket, "key": item["Key"]}
                yield StoredFile(key, item["Size"], load_spec)
            if not answer.get("IsTruncated"):
                return
            token = answer["NextContinuationToken"]

    def check(self) -> None:
        """Creates, refuses to overwrite, and deletes a probe; see the port."""
        bucket, key = self._settings.bucket, f"{self._prefix}probe-{secrets.token_hex(8)}"
        deadline_ms = self._monotonic_ms() + 3 * self._settings.connect_timeout_ms
        self._retrying(f"{_BUCKET_LOOKUP} {bucket!r}", lambda: self._client.head_bucket(Bucket=bucket), deadline_ms)
        what = f"write of a probe to s3://{bucket}/{key}"
        try:
            for expected in (True, False):
                if self._create(bucket, key, b"probe", {}, (what, deadline_ms)) is not expected:
                    raise StorageMisconfigured(
                        f"deep_storage.bucket {bucket!r}: the server overwrites files in spite of 'If-None-Match: *'; "
                        "use one that supports conditional writes"
                    )
        finally:
            self._retrying(what, lambda: self._client.delete_object(Bucket=bucket, Key=key), deadline_ms)

    def _push_whole(self, upload: "_Upload", deadline_ms: int) -> None:
        body = upload.local.read_bytes()
        step = (f"push of {upload}", deadline_ms)
        if not self._create(upload.bucket, upload.key, body, {"sha256": upload.digest}, step):
            self._require_same(upload, deadline_ms)

    def _create(self, bucket: str, key: str, body: bytes, metadata: dict[str, str], step: tuple[str, int]) -> bool:
        """Puts a file that must not exist; False if one does."""
        what, deadline_ms = step

        def once() -> bool:
            try:
                self._client.put_object(Bucket=bucket, Key=key, Body=body, Metadata=metadata, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in _EXISTS_CODES:
                    return False
                raise
            return True

        return self._retrying(what, once, deadline_ms, uncertain=True)

    def _push_parts(self, upload: "_Upload", deadline_ms: int) -> None:
        place, what = {"Bucket": upload.bucket, "Key": upload.key}, f"push of {upload}"
        begun = self._retrying(
            what,
            lambda: self._client.create_multipart_upload(**place, Metadata={"sha256": upload.digest}),
            deadline_ms,
        )
        place["UploadId"] = begun["UploadId"]
        try:
            parts: Parts = []
            with upload.local.open("rb") as file:
                while block := file.read(MULTIPART_BYTES):
                    number = len(parts) + 1

                    def send(number: int = number, block: bytes = block) -> str:
                        answer = self._client.upload_part(**place, PartNumber=number, Body=block)
                        return str(answer["ETag"])

                    parts.append({"PartNumber": number, "ETag": self._retrying(what, send, deadline_ms)})
            if not self._complete(place, parts, what, deadline_ms):
                self._require_same(upload, deadline_ms)
                self._abort(place)
        except UploadUncertain:
            # The completion may still be on its way; aborting could not take it back.
            raise
        except BaseException:
            self._abort(place)
            raise

    def _complete(self, place: dict[str, str], parts: Parts, what: str, deadline_ms: int) -> bool:
        """Makes the parts one file that must not exist; False if one does, perhaps by an earlier try of ours."""

        def once() -> bool:
            try:
                self._client.complete_multipart_upload(**place, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in _EXISTS_CODES or _code(error) == "NoSuchUpload":
                    return False
                raise
            return True

        return self._retrying(what, once, deadline_ms, uncertain=True)

    def _abort(self, place: dict[str, str]) -> None:
        # Parts that stay behind are invisible; the bucket's lifecycle rule is for them.
        try:
            self._client.abort_multipart_upload(**place)
        except (BotoCoreError, ClientError):
            return

    def _require_same(self, upload: "_Upload", deadline_ms: int) -> None:
        found = self._head(upload.bucket, upload.key, deadline_ms)
        if found is None:
            raise StorageUnavailable(f"push of {upload}: the server said that it exists, and then that it does not")
        if found.get("Metadata", {}).get("sha256") != upload.digest:
            raise KeyTaken(f"{upload} holds other bytes already")

    def _head(self, bucket: str, key: str, deadline_ms: int) -> dict[str, Any] | None:
        def once() -> dict[str, Any]:
            answer: dict[str, Any] = self._client.head_object(Bucket=bucket, Key=key)
            return answer

        try:
            return self._retrying(f"look-up of s3://{bucket}/{key}", once, deadline_ms)
        except SegmentNotFound:
            return None

    def _deadline_ms(self) -> int:
        return self._monotonic_ms() + self._settings.call_deadline_ms

    def _retrying(self, what: str, once: Callable[[], T], deadline_ms: int, uncertain: bool = False) -> T:
        """Runs a call until it answers or the deadline is near; the wait between tries doubles.

        ``uncertain``: a try that got no answer may have taken effect, so running out of time is
        UploadUncertain instead of StorageUnavailable.
        """
        backoff_ms = _BACKOFF_FIRST_MS
        if self._monotonic_ms() >= deadline_ms:
            raise StorageUnavailable(f"{what} did not end in {self._settings.call_deadline_ms} ms; nothing was created")
        while True:
            try:
                return once()
            except (BotoCoreError, ClientError, StorageUnavailable) as error:
                failure = _service_error(error, what, self._settings)
                if not failure.retryable:
                    raise failure from error
                if self._monotonic_ms() + backoff_ms >= deadline_ms:
                    if uncertain:
                        raise UploadUncertain(f"{failure}; whether it took effect is not known") from error
                    raise failure from error
            self._wait_ms(backoff_ms)
            backoff_ms = min(2 * backoff_ms, _BACKOFF_LAST_MS)


@dataclass(frozen=True, slots=True)
class _Upload:
    bucket: str
    key: str
    local: Path
    digest: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _service_error(error: Exception, what: str, settings: S3Settings) -> ServiceError:
    """What an error of the client library means for whoever runs the service."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ClientError):
        return _answered_error(error, what, settings)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return StorageMisconfigured(f"{what}: no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if isinstance(error, NoConnection | HTTPClientError):
        where = settings.endpoint_url or "AWS"
        return StorageUnavailable(f"{what}: {where} could not be reached: {error}")
    return StorageUnavailable(f"{what}: {error}")


def _answered_error(error: ClientError, what: str, settings: S3Settings) -> ServiceError:
    code = _code(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    message = f"{what}: {code} {error.response.get('Error', {}).get('Message', '')}".rstrip()
    if code == "NoSuchBucket" or (code in _MISSING_CODES and what.startswith(_BUCKET_LOOKUP)):
        return StorageMisconfigured(f"{message}; create the bucket {settings.bucket!r} or correct deep_storage.bucket")
    if code in _MISSING_CODES:
        return SegmentNotFound(message)
    if code in _RETRYABLE_CODES or status >= 500 or status == 429:
        return StorageUnavailable(message)
    if status in (401, 403):
        return StorageMisconfigured(f"{message}; check the credentials and the bucket's policy")
    return StorageMisconfigured(message)
