"""Errors of object stores are classified by their cause, whichever library reports them; texts as the libraries write
them.
"""

from __future__ import annotations

import errno

import pytest

from frazil.storage_errors import StorageFault, classify, hint_for, store_unavailable

CREDENTIALS, DENIED, NO_SUCH_BUCKET = StorageFault.CREDENTIALS, StorageFault.DENIED, StorageFault.NO_SUCH_BUCKET
MISSING, UNAVAILABLE, OTHER = StorageFault.MISSING, StorageFault.UNAVAILABLE, StorageFault.OTHER

ARROW = (
    "When reading information for key 'x/y' in bucket 'lake': AWS Error {} during HeadObject operation: No "
    "response body."
)
XML = (
    "Error performing GET http://s3/lake/x - Server returned non-2xx status code: {}: "
    "<?xml?>\n<Error><Code>{}</Code></Error>"
)
DELTA = (
    "Kernel error -> Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing GET http://s3/x - Server returned "
    "non-2xx status code\n  {}"
)
BOTO = "An error occurred ({}) when calling the GetObject operation (reached max retries: 0): ..."
JAVA = "software.amazon.awssdk.services.s3.model.{}: ... (Service: S3, Status Code: {}, Request ID: null)"

TEXTS = [
    (
        "Generic S3 error: DeleteObjects request failed for key w/sales/a: Access Denied. (code: AccessDenied)\n\n"
        "Debug source:\nGeneric {",
        DENIED,
    ),
    (ARROW.format("ACCESS_DENIED"), DENIED),
    (ARROW.format("INVALID_ACCESS_KEY_ID"), CREDENTIALS),
    (ARROW.format("SIGNATURE_DOES_NOT_MATCH"), CREDENTIALS),
    (ARROW.format("NO_SUCH_BUCKET"), NO_SUCH_BUCKET),
    (ARROW.format("NETWORK_CONNECTION"), UNAVAILABLE),
    (ARROW.format("SLOW_DOWN"), UNAVAILABLE),
    (ARROW.format("UNKNOWN (HTTP status 301)"), DENIED),
    (ARROW.format("UNKNOWN (HTTP status 503)"), UNAVAILABLE),
    (XML.format("403 Forbidden", "InvalidAccessKeyId"), CREDENTIALS),
    (XML.format("403 Forbidden", "AccessDenied"), DENIED),
    (XML.format("404 Not Found", "NoSuchBucket"), NO_SUCH_BUCKET),
    (XML.format("404 Not Found", "NoSuchKey"), MISSING),
    (XML.format("503 Slow Down", "SlowDown"), UNAVAILABLE),
    (DELTA.format("\x1b[31m↳\x1b[0m 403 Forbidden\n"), DENIED),
    (DELTA.format("\x1b[31m↳\x1b[0m 503 Service Unavailable\n"), UNAVAILABLE),
    (
        "Error performing PUT http://169.254.169.254/latest/api/token - Server returned non-2xx status code: 403 "
        "Forbidden",
        CREDENTIALS,
    ),
    (
        "Generic S3 error: Error performing GET http://s3/lake/x in 302.735µs - HTTP error: error sending request",
        UNAVAILABLE,
    ),
    (BOTO.format("ExpiredToken"), CREDENTIALS),
    (BOTO.format("403"), DENIED),
    (BOTO.format("NoSuchBucket"), NO_SUCH_BUCKET),
    (BOTO.format("404"), MISSING),
    (BOTO.format("InternalError"), UNAVAILABLE),
    ("Unable to locate credentials", CREDENTIALS),
    ('Could not connect to the endpoint URL: "http://127.0.0.1:9/lake/x"', UNAVAILABLE),
    (JAVA.format("NoSuchBucketException", 404), NO_SUCH_BUCKET),
    (JAVA.format("NoSuchKeyException", 404), MISSING),
    (JAVA.format("S3Exception", 403), DENIED),
    (JAVA.format("S3Exception", 503), UNAVAILABLE),
    ("Unable to load credentials from any of the providers in the chain AwsCredentialsProviderChain", CREDENTIALS),
    ("Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.", OTHER),
    (
        "Reading key 'AccessDenied/403 NoSuchBucket' in bucket 'b': AWS Error NETWORK_CONNECTION during GetObject "
        "operation",
        UNAVAILABLE,
    ),
    ("cannot read s3://lake/403/AccessDenied/x: not a Parquet file", OTHER),
]


@pytest.mark.parametrize(("text", "fault"), TEXTS)
def test_the_text_of_each_library_tells_the_cause(text: str, fault: StorageFault) -> None:
    assert classify(text) is fault
    assert classify(OSError(text)) is fault


def test_the_cause_of_an_exception_is_looked_at_too() -> None:
    wrapped = RuntimeError("the run stopped")
    wrapped.__cause__ = OSError(ARROW.format("ACCESS_DENIED"))
    assert classify(wrapped) is DENIED


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/lake/x"), MISSING),
        (PermissionError(errno.EACCES, "Permission denied", "/lake/x"), DENIED),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), UNAVAILABLE),
        (TimeoutError("timed out"), UNAVAILABLE),
        (OSError(errno.ENOSPC, "No space left on device"), OTHER),
        (ValueError("no Avro file"), OTHER),
    ],
)
def test_pythons_own_exceptions_tell_the_cause(error: Exception, fault: StorageFault) -> None:
    assert classify(error) is fault


def test_only_keys_permissions_and_buckets_cannot_be_waited_for() -> None:
    assert {fault for fault in StorageFault if fault.lasting} == {CREDENTIALS, DENIED, NO_SUCH_BUCKET}
    assert store_unavailable("s3://lake/x", OSError(ARROW.format("ACCESS_DENIED"))).lasting
    assert not store_unavailable("s3://lake/x", OSError(ARROW.format("SLOW_DOWN"))).lasting


def test_keys_are_no_matter_of_local_files() -> None:
    assert "AWS_" not in str(hint_for(DENIED, "/lake/x"))
    assert "AWS_SECRET_ACCESS_KEY" in str(hint_for(DENIED, "s3://lake/x"))
