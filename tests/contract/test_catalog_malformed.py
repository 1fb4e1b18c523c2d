"""Requests that cannot be right get a 4xx that says why: never a 500, nor a 503 that asks to try again."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog.embedded import running_catalog
from frazil.catalog.operations.scans import _digest
from frazil.client import FrazilCatalog
from tests.contract.test_catalog_views import create as create_view
from tests.contract.test_catalog_views import version as view_version
from tests.kit.catalog_databases import SCHEMA, Client

ONE = "/namespaces/ns/tables/t"
LEAF = '{"type":"eq","term":"id","value":1}'
DEPTHS = (10, 100, 200, 240, 250, 300, 500, 1_000, 10_000)


@pytest.fixture(scope="module")
def lake() -> Iterator[Client]:
    """A client of a catalog with a table `t` of two rows and a view `v`."""
    with running_catalog() as server:
        client = Client(server.uri)
        client.create("t")
        create_view(client, "v")
        catalog = FrazilCatalog("lake", uri=server.uri)
        table = catalog.load_table("ns.t")
        table.append(pa.table({"id": [1, 2], "data": ["a", "b"]}, schema=table.schema().as_arrow()))
        yield client
        catalog.close()
        client.session.close()


def post_text(client: Client, path: str, text: str) -> int:
    """The status of a request whose body is written by hand: Python's JSON writer has a limit of its own."""
    return client.session.post(
        f"{client.uri}/v1/default{path}", data=text, headers={"content-type": "application/json"}
    ).status_code


# --- registering -----------------------------------------------------------------------------------------------------


def test_the_file_of_a_view_is_not_registered_as_a_table_nor_the_other_way(lake: Client) -> None:
    of_view = lake.get("/namespaces/ns/views/v").body["metadata-location"]  # both are in the cache now
    of_table = lake.load()["metadata-location"]
    answers = [
        lake.post("/namespaces/ns/register", {"name": "x", "metadata-location": of_view}),
        lake.post("/namespaces/ns/register-view", {"name": "x", "metadata-location": of_table}),
    ]
    assert [answer.error[:2] for answer in answers] == [(400, "BadRequestException")] * 2
    assert (lake.get("/namespaces/ns/views/v").status, lake.get(ONE).status) == (200, 200)


@pytest.mark.parametrize(("path", "route"), [(ONE, "register"), ("/namespaces/ns/views/v", "register-view")])
def test_a_file_whose_uuid_is_no_uuid_is_not_registered(lake: Client, path: str, route: str) -> None:
    body = lake.get(path).body
    kind, metadata = route.removeprefix("register-").replace("register", "table"), body["metadata"]
    file = Path(body["metadata-location"].removeprefix("file://")).with_name("00009-odd.metadata.json")
    file.write_text(json.dumps(metadata | {f"{kind}-uuid": "nope"}))
    answer = lake.post(f"/namespaces/ns/{route}", {"name": "x", "metadata-location": f"file://{file}"})
    assert (answer.status, f"'{kind}-uuid' must be a UUID" in answer.body["error"]["message"]) == (400, True)


# --- plan tokens -----------------------------------------------------------------------------------------------------


def forge(token: Any, text: str | None = None) -> str:
    packed = zlib.compress((json.dumps(token) if text is None else text).encode())
    return base64.urlsafe_b64encode(_digest(packed, b"") + packed).decode().rstrip("=")


def genuine(lake: Client) -> dict[str, Any]:
    metadata = lake.load()["metadata"]
    body = {"filter": None, "case-sensitive": True, "stats-fields": []}
    snapshots = [metadata["current-snapshot-id"], None, None]
    return {"table": metadata["table-uuid"], "body": body, "snapshots": snapshots, "schema": 0, "span": None}


JUNK: tuple[Any, ...] = (1, -1, 2**70, 1.5, True, "x", "9" * 50, [], [1], [None], {}, {"a": 1})
SPANS: tuple[Any, ...] = (
    [[-1, -1], [3, 3]], [[0, -5], [0, -1]], [[0, 10**30], None], [[0, 2**63], None], [["a", "b"], None],
    [[0.5, 0], None], [[0, 3], [0, 1]],
    [[0, 0], [0, -1]], [[True, False], None], ["00", None], [{"0": 1, "1": 2}, None],
)  # fmt: skip


def test_a_genuine_plan_token_is_answered(lake: Client) -> None:
    token = forge(genuine(lake))
    answers = [lake.get(f"{ONE}/plan/{token}"), lake.post(f"{ONE}/tasks", {"plan-task": token})]
    assert [len(answer.body["file-scan-tasks"]) for answer in answers] == [1, 1]


def test_forged_plan_tokens_are_refused(lake: Client) -> None:
    good = genuine(lake)
    forged = [
        {**good, key: junk}
        for key in ("table", "snapshots", "schema")
        for junk in JUNK
        if (key, junk) != ("schema", True)
    ]
    forged += [{**good, "body": junk} for junk in (*JUNK, None) if not isinstance(junk, dict)]
    forged += [
        {**good, "body": {**good["body"], key: junk}}
        for key in ("filter", "stats-fields")
        for junk in JUNK
        if junk not in ([], True)
    ]
    forged += [{**good, "body": {**good["body"], "case-sensitive": junk}} for junk in JUNK if junk is not True]
    forged += [{**good, "snapshots": [junk, None, None]} for junk in JUNK] + [
        {**good, "span": span} for span in (*SPANS, *JUNK)
    ]
    forged += [{**good, "snapshots": [None, good["snapshots"][0], None]}, {}, [], 1, "x", None]
    tokens = [forge(token) for token in forged] + [
        "x",
        "A" * 400,
        base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).decode(),
    ]
    statuses = {lake.post(f"{ONE}/tasks", {"plan-task": token}).status for token in tokens}
    statuses |= {lake.get(f"{ONE}/plan/{token}").status for token in tokens}
    assert statuses <= {400, 404}


# --- depth -----------------------------------------------------------------------------------------------------------


FILTERS = {
    "not": lambda depth: '{"type":"not","child":' * depth + LEAF + "}" * depth,
    "and": lambda depth: '{"type":"and","left":' * depth + LEAF + f',"right":{LEAF}}}' * depth,
    "or": lambda depth: f'{{"type":"or","left":{LEAF},"right":' * depth + LEAF + "}" * depth,
    "term": lambda depth: (
        '{"type":"eq","value":1,"term":' + '{"type":"transform","term":' * depth + '"id"' + "}" * (depth + 1)
    ),
    "value": lambda depth: '{"type":"eq","term":"id","value":' + "[" * depth + "]" * depth + "}",
    "unknown": lambda depth: '{"type":"and","left":' * depth + '{"type":"new"}' + f',"right":{LEAF}}}' * depth,
}


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", FILTERS)
def test_deep_filters_are_planned_or_refused(lake: Client, kind: str) -> None:
    statuses = [post_text(lake, f"{ONE}/plan", '{"filter":' + FILTERS[kind](depth) + "}") for depth in DEPTHS]
    assert set(statuses) <= {200, 400}
    assert statuses[-1] == 400
    if kind in ("not", "and", "or"):
        assert statuses[:2] == [200, 200]


def test_deep_filters_in_plan_tokens_are_refused(lake: Client) -> None:
    token = genuine(lake)
    texts = [
        json.dumps({**token, "body": {**token["body"], "filter": "@"}}).replace('"@"', FILTERS["not"](depth))
        for depth in DEPTHS
    ]
    statuses = [lake.post(f"{ONE}/tasks", {"plan-task": forge(None, text)}).status for text in texts]
    assert (statuses[:2], set(statuses) <= {200, 400, 404}, statuses[-1]) == ([200, 200], True, 404)


@pytest.mark.parametrize(
    "around",
    [
        '{"name":"d","schema":@}',
        '{"name":"d","schema":{"type":"struct","fields":[]},"x":@}',
        '{"namespace":@}',
        '{"namespace":["deep"],"properties":@}',
        '{"requirements":[],"updates":[{"action":"add-snapshot","snapshot":{"snapshot-id":9,"sequence-number":9,"timestamp-ms":1,'
        '"manifest-list":"x","more":@}}]}',
        '{"requirements":@,"updates":[]}',
        '{"table-changes":@}',
        '{"source":@,"destination":@}',
        '{"report-type":"scan-report","x":@}',
        "@",
    ],
)
def test_deep_json_is_refused_on_every_route(lake: Client, around: str) -> None:
    routes = (
        "/namespaces",
        "/namespaces/ns/tables",
        ONE,
        "/namespaces/ns/views",
        "/transactions/commit",
        "/tables/rename",
    )
    statuses = {
        post_text(lake, route, around.replace("@", "[" * depth + "]" * depth))
        for route in (*routes, f"{ONE}/metrics")
        for depth in DEPTHS
    }
    assert not [status for status in statuses if status >= 500]


@pytest.mark.parametrize("depth", [20, 60, 100, 230, 400])
def test_deep_schemas_are_refused(lake: Client, depth: int) -> None:
    kind = "".join(
        f'{{"type":"list","element-id":{number + 2},"element-required":false,"element":' for number in range(depth)
    )
    schema = (
        '{"type":"struct","fields":[{"id":1,"name":"a","required":false,"type":' + kind + '"long"' + "}" * depth + "}]}"
    )
    create = f'{{"name":"deep{depth}","schema":{schema}}}'
    view = f'{{"name":"view{depth}","schema":{schema},"view-version":{json.dumps(view_version())},"properties":{{}}}}'
    expected = 200 if depth < 50 else 400
    assert [post_text(lake, "/namespaces/ns/tables", create), post_text(lake, "/namespaces/ns/views", view)] == [
        expected,
        expected,
    ]


# --- length ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tail", ["/" + "a" * 256, "/" + "é" * 128, "/a" * 1_000, "/" + "/".join(["b" * 200] * 20), "/" + "c" * 4_050]
)
def test_locations_that_no_file_system_has_are_refused(lake: Client, tail: str) -> None:
    place = lake.load()["metadata"]["location"].rpartition("/")[0] + tail
    body = {"name": "far", "schema": SCHEMA, "location": place}
    answers = [
        lake.post("/namespaces/ns/tables", body),
        lake.post("/namespaces/ns/views", {**body, "view-version": view_version(), "properties": {}}),
        lake.post("/namespaces/ns/register", {"name": "far", "metadata-location": f"{place}/x.metadata.json"}),
        lake.post("/namespaces/ns/register-view", {"name": "far", "metadata-location": f"{place}/x.metadata.json"}),
        lake.commit({"action": "set-location", "location": place}),
        lake.commit({"action": "set-properties", "updates": {"write.metadata.path": place}}),
    ]
    assert [answer.status for answer in answers] == [400] * len(answers)


def test_a_name_in_another_script_has_a_folder_that_a_file_system_takes(lake: Client) -> None:
    result = [
        lake.create(name)["metadata"]["location"].rpartition("/")[2] for name in ("日" * 100, "é" * 1_000, "x" * 1_000)
    ]
    assert [len(folder.encode()) <= 255 for folder in result] == [True] * 3


def test_names_that_are_too_long_for_the_database_are_refused(client: Client) -> None:
    # an index packs what repeats
    noise = [hashlib.sha256(str(number).encode()).hexdigest() * 15 for number in range(4)]
    answers = [client.post("/namespaces", {"namespace": noise[: level + 1]}).status for level in range(4)]
    assert set(answers) <= {200, 400, 404}


def test_a_format_version_in_superscript_is_no_number(lake: Client) -> None:
    answer = lake.post(
        "/namespaces/ns/tables", {"name": "sup", "schema": SCHEMA, "properties": {"format-version": "²"}}
    )
    assert answer.error[:2] == (400, "IllegalArgumentException")
