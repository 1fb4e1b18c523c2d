"""Which requests to the object store are signed for a table, against clients that describe one and mean another."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import Place, parse_location
from frazil.catalog.storage.policy import Rights
from frazil.catalog.storage.s3_request import Described
from frazil.catalog.storage.signing import EMPTY_SHA256, OPERATIONS, Signable, decide
from frazil.errors import NotSigned

SALES = parse_location("s3://lake/w/sales")
DATA = parse_location("s3://lake/w/data/sales")
STORE = S3Access("eu-west-1", "http://store.example:8333", path_style=True)
AWS = S3Access("eu-west-1")
BASE = "http://store.example:8333"
OWN = f"{BASE}/lake/w/sales/data/a.parquet"
S3_XML = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def described(method: str, uri: str = OWN, body: str | None = None, **headers: str) -> Described:
    named = {name.replace("_", "-"): [value] for name, value in headers.items()}
    return Described(method, "eu-west-1", uri, named, body)


def sign(
    wanted: Described, *, rights: Rights = Rights.ALL, store: S3Access = STORE, places: tuple[Place, ...] = (SALES,)
) -> Signable:
    return decide(wanted, places, rights, store)


def reason(wanted: Described, *, rights: Rights = Rights.ALL, store: S3Access = STORE) -> str:
    with pytest.raises(NotSigned) as raised:
        sign(wanted, rights=rights, store=store)
    return raised.value.reason


def delete_of(*keys: str) -> str:
    objects = "".join(f"<Object><Key>{key}</Key></Object>" for key in keys)
    return f'<?xml version="1.0" encoding="UTF-8"?><Delete {S3_XML}>{objects}<Quiet>true</Quiet></Delete>'


# --- what is signed --------------------------------------------------------------------------------------------------

PART = "?partNumber=3&uploadId=2f.b-1"
LISTING = f"{BASE}/lake?list-type=2&prefix=w%2Fsales%2Fdata%2F"
ALLOWED = {
    "GetObject": described("GET", range="bytes=0-9", user_agent="x"),
    "HeadObject": described("HEAD"),
    "PutObject": described("PUT", content_length="3", if_none_match="*"),
    "CopyObject": described("PUT", x_amz_copy_source="/lake/w/sales/data/b%20c"),
    "CreateMultipartUpload": described("POST", f"{OWN}?uploads", x_amz_checksum_algorithm="CRC32"),
    "UploadPart": described("PUT", f"{OWN}{PART}"),
    "UploadPartCopy": described("PUT", f"{OWN}{PART}", x_amz_copy_source="lake/w/sales/b"),
    "CompleteMultipartUpload": described("POST", f"{OWN}?uploadId=2f.b-1"),
    "AbortMultipartUpload": described("DELETE", f"{OWN}?uploadId=2f.b-1"),
    "ListParts": described("GET", f"{OWN}?uploadId=2f.b-1&max-parts=10"),
    "DeleteObject": described("DELETE"),
    "ListObjectsV2": described("GET", f"{LISTING}&delimiter=%2F&continuation-token=a%2Bb%3D&max-keys=10"),
    "DeleteObjects": described("POST", f"{BASE}/lake?delete", delete_of("w/sales/a", "w/sales/b&amp;c")),
}
RIGHTS = {
    Rights.READ: {"GetObject", "HeadObject", "ListObjectsV2"},
    Rights.WRITE: {
        *("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"),
        *("AbortMultipartUpload", "ListParts"),
    },
    Rights.DELETE: {"DeleteObject", "DeleteObjects"},
    Rights.READ | Rights.WRITE: {"CopyObject", "UploadPartCopy"},
}


@pytest.mark.parametrize("operation", [operation.name for operation in OPERATIONS])
def test_each_operation_is_signed_with_its_rights_and_refused_without(operation: str) -> None:
    needed = next(rights for rights, names in RIGHTS.items() if operation in names)
    wanted = ALLOWED[operation]
    assert sign(wanted, rights=needed).operation == operation
    for right in needed:
        assert "privilege" in reason(wanted, rights=Rights.ALL & ~right)


def test_the_parts_of_a_signed_request() -> None:
    signed = sign(
        described("GET", Range="bytes=0-9", User_Agent="Java", amz_sdk_request="attempt=1", Host="store.example:8333")
    )
    assert signed == Signable("GetObject", "GET", OWN, {"range": "bytes=0-9", "x-forwarded-prefix": ""}, EMPTY_SHA256)
    # AWS does not know the header
    aws = sign(described("GET", "https://lake.s3.eu-west-1.amazonaws.com/w/sales/a"), store=AWS)
    assert (aws.url, aws.headers) == ("https://lake.s3.eu-west-1.amazonaws.com/w/sales/a", {})


def test_a_partition_value_with_a_slash_stays_a_name() -> None:
    uri = f"{BASE}/lake/w/sales/data/url%3Dhttps%253A%252F%252Fa%252Fb/x.parquet"
    assert sign(described("PUT", uri)).url == uri


def test_all_places_of_a_table_are_inside() -> None:
    uri = f"{BASE}/lake/w/data/sales/x"
    assert "folders" in reason(described("GET", uri))
    assert sign(described("GET", uri), places=(SALES, DATA)).operation == "GetObject"
    both = described("PUT", uri, x_amz_copy_source="lake/w/sales/a")
    assert sign(both, places=(SALES, DATA)).operation == "CopyObject"


@pytest.mark.parametrize(
    ("uri", "canonical"),
    [
        (f"{BASE}/lake/w/s%61les/a%3db=c", f"{BASE}/lake/w/sales/a%3Db%3Dc"),
        ("HTTP://store.example:8333/lake/w/sales/a", None),
        ("http://STORE.example:8333/lake/w/sales/a", f"{BASE}/lake/w/sales/a"),
        (f"{BASE}/lake/w/sales/%C3%BC", f"{BASE}/lake/w/sales/%C3%BC"),
    ],
)
def test_what_is_signed_is_written_from_the_decoded_parts(uri: str, canonical: str | None) -> None:
    if canonical is None:
        assert "URI" in reason(described("GET", uri))
    else:
        assert sign(described("GET", uri)).url == canonical


# --- the body --------------------------------------------------------------------------------------------------------


def test_a_batch_delete_is_bound_to_its_body() -> None:
    body = delete_of("w/sales/a")
    digest = hashlib.sha256(body.encode()).hexdigest()
    wanted = described("POST", f"{BASE}/lake?delete", body)
    assert sign(wanted).payload_hash == digest
    assert sign(replace(wanted, headers={"x-amz-content-sha256": [digest]})).payload_hash == digest
    for other in ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", EMPTY_SHA256):
        assert "hash" in reason(replace(wanted, headers={"x-amz-content-sha256": [other]}))


@pytest.mark.parametrize(
    ("operation", "given", "signed"),
    [
        ("PutObject", None, "UNSIGNED-PAYLOAD"),
        ("PutObject", "a" * 64, "a" * 64),
        ("UploadPart", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        ("PutObject", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", None),
        ("GetObject", None, EMPTY_SHA256),
        ("GetObject", "a" * 64, None),
        ("DeleteObject", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD"),
    ],
)
def test_the_hash_of_the_body(operation: str, given: str | None, signed: str | None) -> None:
    wanted = ALLOWED[operation]
    if given:
        wanted = replace(wanted, headers={**wanted.headers, "x-amz-content-sha256": [given]})
    if signed is None:
        assert "x-amz-content-sha256" in reason(wanted)
    else:
        assert sign(wanted).payload_hash == signed


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "not xml",
        "<Delete/>",
        delete_of(),
        delete_of("w/sales/a", "w/sales2/a"),
        delete_of("w/sales/a", ""),
        delete_of("w/sales/a/../../other/a"),
        delete_of("w/sales/&#x2e;&#x2e;/other/a"),
        delete_of("w/sales/%2e%2e/%2e%2e/other"),
        delete_of("W/SALES/a"),
        delete_of("w/sales/a<!-- x -->b"),
        delete_of("<![CDATA[w/sales/a]]>"),
        delete_of("w/sales/a").replace("</Key>", "</Key><Key>w/other/a</Key>"),
        delete_of("w/sales/a").replace("</Key>", "</Key><VersionId>1</VersionId>"),
        delete_of("w/sales/a").replace("</Object>", "</Object>w/other/a"),
        delete_of("w/sales/a").replace("<Object>", '<Object xmlns="urn:x">'),
        delete_of("w/sales/a").replace("<Delete ", '<Delete xmlns:x="urn:x" '),
        delete_of("w/sales/a").replace("<Key>", '<Key id="1">'),
        delete_of("w/sales/a").replace("UTF-8", "UTF-16"),
        delete_of("w/sales/a").replace("<Delete", '<!DOCTYPE d [<!ENTITY e "w/other/a">]><Delete'),
        delete_of("w/sales/a") + "<Delete/>",
        delete_of(*["w/sales/a"] * 1001),
        delete_of("w/sales/" + "a" * 2_100_000),
    ],
)
def test_a_batch_delete_with_another_body_is_refused(body: str | None) -> None:
    assert reason(described("POST", f"{BASE}/lake?delete", body))


def test_entities_do_not_multiply() -> None:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE d [<!ENTITY e0 "w/sales/a">{entities}]><Delete><Object><Key>&e9;</Key></Object></Delete>'
    assert "document type" in reason(described("POST", f"{BASE}/lake?delete", body))


# --- tricks ----------------------------------------------------------------------------------------------------------

FOREIGN_KEYS = [
    "w/sales2/a",
    "w/sales",
    "w/sale",
    "w/Sales/a",
    "W/sales/a",
    "other/a",
    "w/sales/../other/a",
    "w/sales/./a",
    "w/sales//a",
    "w//sales/a",
    "/w/sales/a",
    "w/sales/a/",
    "w/sales/..",
    "w/sales/%2e%2e/other/a",
    "w/sales/%252e%252e/other/a",
    "w/sales/..%2fother/a",
    "w/sales/..\\other\\a",
    "w/sales/%5c..%5cother",
    "w/sales\\a",
    "w/sales/a\x00b",
    "w/sales/a\nb",
    "w/sales/\uff0e\uff0e/other/a",
    "w/sales/\u2025/other/a",
    "w/sales/a\uff0f..",
    "w/sa\u2113es/a",
    "w/s\u0430les/a",
    "w/sales\u0301/a",
    "w/sales/" + "a" * 1020,
    "%77/sales/a",
]


@pytest.mark.parametrize("key", FOREIGN_KEYS)
def test_a_key_outside_of_the_table_is_refused_wherever_it_is_named(key: str) -> None:
    escaped = key.replace("&", "&amp;")
    wanted = [
        described("GET", f"{BASE}/lake/{quote(key)}"),
        described("PUT", OWN, x_amz_copy_source=f"/lake/{quote(key)}"),
        described("PUT", f"{BASE}/lake/{quote(key)}", x_amz_copy_source="/lake/w/sales/a"),
        described("POST", f"{BASE}/lake?delete", delete_of("w/sales/a", escaped)),
    ]
    if not key.startswith("w/sales/a") and key != "w/sales/a/":  # a listing may end in a part of a name
        wanted.append(described("GET", f"{BASE}/lake?list-type=2&prefix={quote(key, safe='')}"))
    assert all(reason(request) for request in wanted)


@pytest.mark.parametrize(
    "uri",
    [
        f"{BASE}/other/w/sales/a",
        f"{BASE}/Lake/w/sales/a",
        f"{BASE}/lake%2Fw/sales/a",
        f"{BASE}/lake/w/sales%2Fa",
        f"{BASE}/lake/w/sales/..%2Fother",
        f"{BASE}/lake/w/sales/%00",
        f"{BASE}/lake/w/sales/%c0%ae%c0%ae/a",
        f"{BASE}/lake/w/sales/%e0%80%af",
        f"{BASE}/lake/w/sales/a%",
        f"{BASE}/lake/w/sales/a%2",
        f"{BASE}/lake/w/sales/a b",
        f"{BASE}/lake/w/sales/a+b",
        f"{BASE}/lake/w/sales/ü",
        f"{BASE}/lake/w/sales/a\\b",
        f"{BASE}/lake/w/sales/a#b",
        f"{BASE}/lake/w/sales/a#/../../other",
        f"{BASE}/lake/w/sales/a\n",
        f"{BASE}//lake/w/sales/a",
        f"{BASE}/lake/w/sales/{'a/' * 5000}b",
        "http://store.example:8333@evil.example/lake/w/sales/a",
        "http://evil.example/lake/w/sales/a",
        "http://evil.example#@store.example:8333/lake/w/sales/a",
        "http://store.example:8333.evil.example/lake/w/sales/a",
        "http://store.example:8334/lake/w/sales/a",
        "http://store.example/lake/w/sales/a",
        "https://store.example:8333/lake/w/sales/a",
        "http://store.example:08333/lake/w/sales/a",
        "http://store.example.:8333/lake/w/sales/a",
        "//store.example:8333/lake/w/sales/a",
        "/lake/w/sales/a",
        "s3://lake/w/sales/a",
        "ftp://store.example:8333/lake/w/sales/a",
        # a store of the path style reads the path so whatever the host says
        "http://lake.store.example:8333/w/sales/a",
        "http://lake.store.example:8333/lake/w/sales/a",
        "",
    ],
)
def test_a_uri_that_is_not_plainly_an_object_of_the_table_is_refused(uri: str) -> None:
    assert reason(described("GET", uri))


def test_a_bucket_in_the_host_is_accepted_where_the_store_expects_it() -> None:
    hosted = S3Access("eu-west-1", "https://store.example")
    for base in ("https://lake.store.example", "https://lake.store.example:443"):
        assert sign(described("GET", f"{base}/w/sales/a"), store=hosted).url == "https://lake.store.example/w/sales/a"
    for base in ("https://other.store.example", "https://lake.lake.store.example", "https://lake.evil.example"):
        assert "host" in reason(described("GET", f"{base}/w/sales/a"), store=hosted)
    assert reason(described("GET", "https://lake.store.example/lake/w/sales/a"), store=hosted)
    assert reason(described("GET", "https://store.example/lake/w/sales/a"), store=hosted)
    for uri in (
        "https://s3.eu-west-1.amazonaws.com/lake/w/sales/a",
        "https://lake.s3.eu-west-1.amazonaws.com/w/sales/a",
    ):
        assert sign(described("GET", uri), store=AWS).url == uri
    for host in ("lake.s3.us-east-1.amazonaws.com", "lake.s3-website.eu-west-1.amazonaws.com", "s3.amazonaws.com"):
        assert "host" in reason(described("GET", f"https://{host}/lake/w/sales/a"), store=AWS)


@pytest.mark.parametrize(
    ("method", "query"),
    [
        *(
            ("GET", name)
            for name in ("acl", "tagging", "versionId=1", "attributes", "torrent", "retention", "legal-hold")
        ),
        *(("PUT", name) for name in ("acl", "tagging", "retention", "legal-hold", "encryption", "renameObject")),
        *(("POST", name) for name in ("restore", "select&select-type=2", "", "uploads=1", "uploads&uploadId=1")),
        *(("DELETE", name) for name in ("tagging", "versionId=1", "uploadId=1&uploads")),
        # a store that takes the id for a folder would leave its own one
        *(("DELETE", f"uploadId={name}") for name in ("1%2F..%2F..%2Fw%2Fother", "1/../../w/other", "..", "1%2Fa")),
        *(
            ("GET", name)
            for name in ("response-content-type=text/html", "partNumber=1", "X-Amz-Signature=x", "unknown")
        ),
        *(
            ("GET", name)
            for name in ("uploadId=1&uploadId=2", "uploadId=1&&max-parts=1", "=1", "uploadId=a=b", "uploadId=")
        ),
        *(
            ("PUT", name)
            for name in ("partNumber=1", "uploadId=1", "partNumber=x&uploadId=1", "uploadID=1&partNumber=1")
        ),
        *((method, "") for method in ("OPTIONS", "PATCH", "get", "CONNECT", "GET ")),
    ],
)
def test_other_operations_on_an_object_are_refused(method: str, query: str) -> None:
    assert reason(described(method, f"{OWN}?{query}" if query else OWN))


@pytest.mark.parametrize(
    ("method", "query"),
    [
        *(("GET", name) for name in ("", "acl", "policy", "location", "uploads", "versions", "versioning", "logging")),
        *(("GET", f"list-type=2{more}") for more in ("", "&prefix=", "&prefix=w%2F", "&prefix=w%2Fsales", "&versions")),
        *(("GET", f"list-type=2&prefix=w%2Fsales%2F{more}") for more in ("&prefix=w", "&marker=x", "&delimiter=s")),
        *(("GET", f"list-type=2&prefix=w%2Fsales%2F{more}") for more in ("&start-after=w", "..%2F", "&acl", "+x")),
        ("GET", "list-type=1&prefix=w%2Fsales%2F"),
        ("GET", "prefix=w%2Fsales%2F"),
        *(("PUT", name) for name in ("", "acl", "policy", "versioning", "lifecycle", "website", "encryption", "cors")),
        *(("DELETE", name) for name in ("", "policy", "lifecycle")),
        *(("POST", name) for name in ("", "delete=1", "delete&versionId=1")),
        ("HEAD", ""),
    ],
)
def test_other_operations_on_the_bucket_are_refused(method: str, query: str) -> None:
    body = delete_of("w/sales/a")
    for path in ("/lake", "/lake/"):
        assert reason(described(method, f"{BASE}{path}?{query}" if query else f"{BASE}{path}", body))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-acl", "public-read"),
        ("x-amz-grant-full-control", "id=1"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-website-redirect-location", "http://evil.example"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-key", "k"),
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-request-payer", "requester"),
        ("x-amz-security-token", "t"),
        ("x-amz-meta-a", "b"),
        ("x-amz-date", "20991231T000000Z"),
        ("date", "Thu, 31 Dec 2099 00:00:00 GMT"),
        ("authorization", "AWS4-HMAC-SHA256 x"),
        ("x-forwarded-prefix", "/lake/w"),
        ("x-forwarded-host", "evil.example"),
        ("X-Forwarded-Host", ""),
        ("x-forwarded-port", "80"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "host=evil.example"),
        ("x-original-host", "evil.example"),
        ("x-rewrite-url", "/lake/w/other/a"),
        ("transfer-encoding", "chunked"),
        ("content-encoding", "gzip"),
        ("x-amz-storage-class", "standard"),
        ("x-amz-copy-source", "lake/w/sales/a?versionId=1"),
        ("x-amz-copy-source", "lake/w/sales/a+b"),
        ("x-amz-copy-source", "lake%2Fw%2Fother%2Fa"),
        ("x-amz-copy-source", "//lake/w/sales/a"),
        ("x-amz-copy-source", "other/w/sales/a"),
        ("x-amz-copy-source", "arn:aws:s3:eu-west-1:1:accesspoint/x/object/w/sales/a"),
        ("x-amz-copy-source", ""),
        ("host", "evil.example"),
        ("content-type", "text/plain\r\nx-amz-acl: public-read"),
        ("content-type", "text/plain\nx-amz-acl:public-read"),
        ("content-type", "ü"),
        ("con tent", "x"),
        ("x-amz-acl:", "x"),
        ("", "x"),
    ],
)
def test_a_header_with_an_effect_of_its_own_is_refused(name: str, value: str) -> None:
    assert reason(Described("PUT", "eu-west-1", OWN, {name: [value]}))


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": ["bytes=0-1"], "range": ["bytes=0-9"]},
        {"range": ["bytes=0-1", "bytes=0-9"]},
        {"range": []},
        {f"x{n}": ["1"] for n in range(65)},
    ],
)
def test_a_header_that_is_there_twice_is_refused(headers: Mapping[str, list[str]]) -> None:
    assert reason(Described("GET", "eu-west-1", OWN, headers))


def test_another_region_is_refused() -> None:
    assert "region" in reason(replace(described("GET"), region="us-east-1"))


# --- anything --------------------------------------------------------------------------------------------------------

STARTS = (
    "w/sales/",
    "w/sales/",
    "w/sales/data/",
    "w/sales",
    "w/sales2/",
    "w/Sales/",
    "W/sales/",
    "w/",
    "w//sales/",
    "",
)
PIECES = (
    *(
        "sales",
        "other",
        "a",
        "b=c",
        "",
        ".",
        "..",
        "%2e%2e",
        "%2E.",
        "%2f",
        "..%2F..%2F",
        "%5c..%5c",
        "%252e%252e%252f",
    ),
    *("%00", "\uff0e\uff0e", "\u2025", "\\", "..\\", "ü", "?", "#", "&", "+", " ", "%"),
)
RESTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("/".join) | st.text(min_size=1, max_size=8)
KEYS = st.tuples(st.sampled_from(STARTS), RESTS).map("".join)
ENCODINGS = {"raw": lambda key: key, "once": lambda key: quote(key, safe="/"), "twice": lambda key: quote(quote(key))}


def escape(key: str) -> str:
    return key.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def reached(path: str) -> list[str]:
    """All that a store could touch at a path `/bucket/key`: decoded further or not, cleaned or not."""
    forms = (path, unquote(path), unquote(unquote(path)))
    return [cleaned for form in forms for cleaned in (form, posixpath.normpath(form.replace("\\", "/")))]


def named_by(where: str, signed: Signable, encoded: str, key: str) -> str:
    """What a signed request is about, read by other parsers than ours."""
    parts = urlsplit(signed.url)
    assert f"{parts.scheme}://{parts.netloc}" == BASE
    if where == "path":
        return unquote(parts.path)
    if where == "prefix":
        (prefix,) = parse_qs(parts.query, strict_parsing=True)["prefix"]
        return f"/lake/{prefix}"
    return f"/lake/{unquote(encoded)}" if where == "copy source" else f"/lake/{key}"


def request_at(where: str, encoded: str, key: str) -> Described:
    return {
        "path": described("GET", f"{BASE}/lake/{encoded}"),
        "prefix": described("GET", f"{BASE}/lake?list-type=2&prefix={encoded}"),
        "copy source": described("PUT", OWN, x_amz_copy_source=f"/lake/{encoded}"),
        "body": described("POST", f"{BASE}/lake?delete", delete_of(escape(key))),
    }[where]


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(["path", "prefix", "copy source", "body"]), KEYS, st.sampled_from(sorted(ENCODINGS)))
def test_nothing_outside_of_the_table_is_ever_signed(where: str, key: str, encoding: str) -> None:
    try:
        encoded = ENCODINGS[encoding](key)
        signed = sign(request_at(where, encoded, key))
    except (NotSigned, UnicodeEncodeError):
        return
    touched = reached(named_by(where, signed, encoded, key))
    assert [path for path in touched if not f"{path}/".startswith("/lake/w/sales/")] == []


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(["GET", "PUT", "DELETE", "POST", "HEAD"]), st.text(max_size=40) | RESTS, RESTS)
def test_no_text_makes_the_decision_fail(method: str, text: str, value: str) -> None:
    for uri in (text, f"http://{text}", f"{BASE}/{text}", f"{BASE}/lake?{text}"):
        with contextlib.suppress(NotSigned):
            sign(Described(method, "eu-west-1", uri, {"range": [value], "x-amz-copy-source": [text]}, text))
