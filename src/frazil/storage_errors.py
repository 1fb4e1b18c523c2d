"""Classifies errors of file systems and object stores by their cause.

PyArrow, obstore, delta-rs, botocore and the Java SDK report the same S3 error as different exceptions with different
texts. `classify` reduces each of them to one `StorageFault`; whether a retry can help and what the user should do
follow from that alone.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from enum import Enum

from frazil.errors import Unavailable


class StorageFault(Enum):
    """Why a file could not be read or written."""

    CREDENTIALS = "credentials"  # no keys, or keys that the store does not know or accept
    DENIED = "denied"  # 401 or 403: the keys do not allow this, or (the answer to a HEAD has no body) are wrong
    NO_SUCH_BUCKET = "no such bucket"
    MISSING = "missing"  # the file is not there
    UNAVAILABLE = "unavailable"  # not reachable, overloaded, timed out: a retry may help
    OTHER = "other"

    @property
    def lasting(self) -> bool:
        """Whether waiting cannot help: the user has to change keys, permissions or settings first."""
        return self in _LASTING

    @property
    def of_the_store(self) -> bool:
        """Whether the cause lies in the access to the store, not in the file that was asked for."""
        return self in _LASTING or self is StorageFault.UNAVAILABLE


_DEBUG = "\n\nDebug source:"  # obstore repeats its error after this as Rust structs
_LASTING = frozenset({StorageFault.CREDENTIALS, StorageFault.DENIED, StorageFault.NO_SUCH_BUCKET})

# Error codes of S3 and STS in lower case without separators: PyArrow writes ACCESS_DENIED where S3 writes AccessDenied.
_CODES = {
    StorageFault.CREDENTIALS: (
        "invalidaccesskeyid signaturedoesnotmatch expiredtoken expiredtokenexception invalidtoken tokenrefreshrequired "
        "missingsecurityheader invalidclienttokenid unrecognizedclient unrecognizedclientexception "
        "missingauthenticationtoken "
        "incompletesignature invalidsignature requesttimetooskewed requestexpired notsignedup invalidsecurity "
        "credentialsnotsupported"
    ),
    StorageFault.DENIED: (
        "accessdenied accessdeniedexception allaccessdisabled accountproblem unauthorizedaccess "
        "authorizationheadermalformed "
        "permanentredirect forbidden unauthorized 401 403 301"
    ),
    StorageFault.NO_SUCH_BUCKET: "nosuchbucket",
    StorageFault.MISSING: "nosuchkey resourcenotfound nosuchversion notfound 404",
    StorageFault.UNAVAILABLE: (
        "networkconnection slowdown internalerror internalfailure serviceunavailable requesttimeout throttling "
        "throttlingexception "
        "requestlimitexceeded toomanyrequests 429 500 502 503 504"
    ),
}
_FAULT_OF_CODE = {code: fault for fault, codes in _CODES.items() for code in codes.split()}

# Where each library puts the code. A location in the text may hold any words, so only these places are looked at.
_CODE_PLACES = [
    re.compile(r"AWS Error (?:UNKNOWN \(HTTP status )?(\w+)\)? during \w+ operation"),  # PyArrow
    re.compile(r"<Code>(\w+)</Code>"),  # obstore, delta-rs, SeaweedFS: the XML of the answer
    # obstore: one object of a batch
    re.compile(r"DeleteObjects request failed for key .* \(code: (\w+)\)$", re.MULTILINE),
    re.compile(r"An error occurred \((\w+)\) when calling the"),  # botocore
    re.compile(r"services\.(?:s3|sts)\.model\.(\w+?)Exception"),  # Java SDK, by class
    re.compile(r"\(Service: S3, Status Code: (\d{3})"),  # Java SDK, by status
    # obstore and delta-rs without a body; delta-rs colours its text
    re.compile(r"non-2xx status code\W+(?:\[\w+m\W*)*(\d{3}) "),
    re.compile(r"HTTP (?:status )?(?:code )?(\d{3})\b"),  # DuckDB and others
]

_NO_KEYS = re.compile(
    r"Unable to locate credentials|Partial credentials found|Unable to load credentials from any of the providers"
    r"|/latest/(?:api/token|meta-data/iam)"  # obstore without keys asks the cloud machine's metadata service
)
_UNREACHABLE = re.compile(
    r"Could not connect to the endpoint URL|error sending request|Connection refused|Could not resolve host|Read timeout on endpoint"  # noqa: E501
    r"|Connect timeout on endpoint|Unable to execute HTTP request|error decoding response body|operation timed out"
)
_TYPES = {
    "NoCredentialsError": StorageFault.CREDENTIALS,
    "PartialCredentialsError": StorageFault.CREDENTIALS,
    "UnauthenticatedError": StorageFault.CREDENTIALS,
    "PermissionDeniedError": StorageFault.DENIED,
    "PermissionError": StorageFault.DENIED,
    "FileNotFoundError": StorageFault.MISSING,
    "NotFoundError": StorageFault.MISSING,
    "ConnectionError": StorageFault.UNAVAILABLE,
    "TimeoutError": StorageFault.UNAVAILABLE,
    "Timeout": StorageFault.UNAVAILABLE,
}
_ERRNOS = {errno.EACCES: StorageFault.DENIED, errno.EPERM: StorageFault.DENIED, errno.ENOENT: StorageFault.MISSING}


def classify(error: BaseException | str) -> StorageFault:
    """The fault that an exception (with its causes), or the text of one, stands for.

    >>> classify("When reading information for key 'x' in bucket 'b': AWS Error ACCESS_DENIED during HeadObject operation: ...")
    <StorageFault.DENIED: 'denied'>
    >>> classify(FileNotFoundError(2, "No such file or directory", "/lake/part-0.parquet"))
    <StorageFault.MISSING: 'missing'>
    >>> classify("Parquet magic bytes not found in footer")
    <StorageFault.OTHER: 'other'>
    """  # noqa: E501
    if isinstance(error, str):
        return _by_text(error)
    for exception in _chain(error):
        fault = _by_text(str(exception))
        fault = fault if fault is not StorageFault.OTHER else _by_type(exception)
        if fault is not StorageFault.OTHER:
            return fault
    return StorageFault.OTHER


def hint_for(fault: StorageFault, location: str) -> str | None:
    """What to do about a fault at a location; None where the fault alone does not say it.

    >>> hint_for(StorageFault.DENIED, "file:///lake/part-0.parquet")
    'let this user read and write there'
    >>> hint_for(StorageFault.OTHER, "s3://lake/part-0.parquet")
    """
    if fault is StorageFault.DENIED and not _in_object_store(location):
        return "let this user read and write there"
    return _HINTS.get(fault)


def store_unavailable(location: str, error: Exception) -> Unavailable:
    """The error for a store that failed at a location, with a hint that fits the cause."""
    fault = classify(error)
    failed = f"the object store failed for {location}" if _in_object_store(location) else f"cannot access {location}"
    message = f"{failed}: {str(error).partition(_DEBUG)[0][:500]}"
    return Unavailable(message, hint=hint_for(fault, location), lasting=fault.lasting)


_HINTS = {
    StorageFault.CREDENTIALS: (
        "the object store did not accept the keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that it "
        "knows, in this process "
        "and in the catalog's; frazil connect env lists the variables"
    ),
    StorageFault.DENIED: (
        "the object store refused access: check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_REGION, and that "
        "these keys are "
        "allowed to use this bucket and prefix"
    ),
    StorageFault.NO_SUCH_BUCKET: "create the bucket, or correct AWS_ENDPOINT_URL or the location of the warehouse",
    StorageFault.UNAVAILABLE: "the object store does not answer: check that it runs, and AWS_ENDPOINT_URL; the table "
    "itself is unchanged",
}


def _in_object_store(location: str) -> bool:
    return location.startswith(("s3:", "s3a:", "s3n:"))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    exception: BaseException | None = error
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        yield exception
        exception = exception.__cause__ or exception.__context__


def _by_text(text: str) -> StorageFault:
    if _NO_KEYS.search(text):
        return StorageFault.CREDENTIALS
    for place in _CODE_PLACES:
        for code in reversed(place.findall(text)):
            if fault := _FAULT_OF_CODE.get(code.replace("_", "").lower()):
                return fault
    return StorageFault.UNAVAILABLE if _UNREACHABLE.search(text) else StorageFault.OTHER


def _by_type(exception: BaseException) -> StorageFault:
    for base in type(exception).__mro__:
        if fault := _TYPES.get(base.__name__):
            return fault
    return _ERRNOS.get(getattr(exception, "errno", None) or 0, StorageFault.OTHER)
