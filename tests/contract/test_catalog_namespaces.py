"""Namespaces, on both databases."""

from __future__ import annotations

import pytest

from frazil.catalog.embedded import EmbeddedCatalog
from tests.kit.catalog_databases import Client


def test_a_namespace_is_created_once_and_keeps_its_properties(client: Client) -> None:
    first = client.post("/namespaces", {"namespace": ["a"], "properties": {"owner": "hank"}})
    second = client.post("/namespaces", {"namespace": ["a"]})
    assert (first.status, first.body) == (200, {"namespace": ["a"], "properties": {"owner": "hank"}})
    assert second.error == (409, "AlreadyExistsException", "Namespace already exists: a")
    assert client.get("/namespaces/a").body["properties"]["owner"] == "hank"


def test_a_namespace_shows_the_location_that_its_tables_get(client: Client, server: EmbeddedCatalog) -> None:
    client.post("/namespaces", {"namespace": ["a"]})
    client.post("/namespaces", {"namespace": ["b"], "properties": {"location": f"{server.warehouse}/elsewhere"}})
    shown = [client.get(f"/namespaces/{name}").body["properties"]["location"] for name in "ab"]
    assert shown == [f"{server.warehouse}/a", f"{server.warehouse}/elsewhere"]
    assert [client.create("t", name)["metadata"]["location"] for name in "ab"] == [
        f"{location}/t" for location in shown
    ]


def test_nested_namespaces_are_listed_level_by_level(client: Client) -> None:
    for levels in (["a"], ["a", "b"], ["a", "b", "c"], ["a", "d"], ["e"]):
        assert client.post("/namespaces", {"namespace": levels}).status == 200
    assert client.get("/namespaces").body["namespaces"] == [["a"], ["e"]]
    assert client.get("/namespaces", parent="a").body["namespaces"] == [["a", "b"], ["a", "d"]]
    assert client.get("/namespaces", parent="a\x1fb").body["namespaces"] == [["a", "b", "c"]]


def test_a_namespace_needs_its_parent(client: Client) -> None:
    assert client.post("/namespaces", {"namespace": ["a", "b"]}).error == (
        404,
        "NoSuchNamespaceException",
        "Namespace does not exist: a",
    )


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/namespaces/x"), ("DELETE", "/namespaces/x"), ("GET", "/namespaces/x/tables")]
)
def test_a_missing_namespace_is_404(client: Client, method: str, path: str) -> None:
    assert client.call(method, path).error == (404, "NoSuchNamespaceException", "Namespace does not exist: x")


def test_head_tells_whether_a_namespace_exists(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["a"]})
    assert [client.call("HEAD", f"/namespaces/{name}").status for name in ("a", "b")] == [204, 404]


def test_only_an_empty_namespace_is_dropped(client: Client) -> None:
    client.create("t", "a")
    client.post("/namespaces", {"namespace": ["b"]})
    client.post("/namespaces", {"namespace": ["b", "c"]})
    assert client.delete("/namespaces/a").error[:2] == (409, "NamespaceNotEmptyException")
    assert client.delete("/namespaces/b").error[:2] == (409, "NamespaceNotEmptyException")
    assert client.delete("/namespaces/b%1Fc").status == 204
    assert client.delete("/namespaces/b").status == 204


def test_properties_are_set_removed_and_missed(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["a"], "properties": {"x": "1", "y": "2"}})
    answer = client.post("/namespaces/a/properties", {"updates": {"z": "3"}, "removals": ["x", "w"]})
    assert answer.body == {"updated": ["z"], "removed": ["x"], "missing": ["w"]}
    properties = client.get("/namespaces/a").body["properties"]
    assert {key: properties[key] for key in properties if key != "location"} == {"y": "2", "z": "3"}


def test_a_property_cannot_be_set_and_removed_at_once(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["a"]})
    answer = client.post("/namespaces/a/properties", {"updates": {"x": "1"}, "removals": ["x"]})
    assert answer.error[:2] == (422, "UnprocessableEntityException")


def test_pages_of_namespaces_hold_each_once(client: Client) -> None:
    for number in range(7):
        client.post("/namespaces", {"namespace": [f"n{number}"]})
    seen, token = [], ""
    while token is not None:
        page = client.get("/namespaces", pageToken=token, pageSize="3").body
        seen.append([levels[0] for levels in page["namespaces"]])
        token = page["next-page-token"]
    assert seen == [["n0", "n1", "n2"], ["n3", "n4", "n5"], ["n6"]]


def test_a_listing_without_pages_is_complete(client: Client) -> None:
    for number in range(5):
        client.post("/namespaces", {"namespace": [f"n{number}"]})
    body = client.get("/namespaces").body
    assert (len(body["namespaces"]), body["next-page-token"]) == (5, None)


@pytest.mark.parametrize("query", [{"pageToken": "%%%"}, {"pageSize": "0"}, {"pageSize": "x"}])
def test_a_bad_page_is_refused(client: Client, query: dict[str, str]) -> None:
    assert client.get("/namespaces", **query).error[:2] == (400, "BadRequestException")


@pytest.mark.parametrize("levels", [[], [""], ["a", ""], "a", None, [1], ["a\x00b"], ["a\x1fb"], ["x" * 2000]])
def test_a_namespace_that_cannot_be_kept_is_refused(client: Client, levels: object) -> None:
    assert client.post("/namespaces", {"namespace": levels}).error[:2] == (400, "BadRequestException")


def test_warehouses_of_one_server_do_not_see_each_other(client: Client) -> None:
    client.post("/namespaces", {"namespace": ["a"]})
    cold = Client(client.uri, prefix="cold", session=client.session)
    assert cold.get("/namespaces").body["namespaces"] == []
    assert cold.create("t", "a")["metadata"]["location"].endswith("/cold/a/t")
