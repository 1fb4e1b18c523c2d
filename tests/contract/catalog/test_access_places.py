"""Where a caller may put a table, view or namespace: its default location, or a place in what the caller manages."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import Target, open_database, plan, running_catalog, store_missing_places
from frazil.catalog.cache import VersionCache
from frazil.catalog.locations import folder_name
from frazil.catalog.warehouse import MetadataFiles
from tests.kit.access import VIEW_VERSION, Guarded, namespace, table
from tests.kit.catalog_databases import SCHEMA, Answer, Client, create_updates

WAREHOUSE = Target("warehouse", "default")
FORBIDDEN = (403, "ForbiddenException")


@pytest.fixture
def guarded(guarded: Guarded) -> Guarded:
    for name in ("ns", "other"):
        guarded.admin.post("/namespaces", {"namespace": [name]})
    return guarded


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def leave_files(guarded: Guarded, name: str = "secret", ns: str = "other") -> str:
    """The location of a table that was dropped without a purge."""
    location: str = guarded.admin.create(name, ns)["metadata"]["location"]
    assert guarded.admin.delete(f"/namespaces/{ns}/tables/{name}").status == 204
    return location


def create(client: Client, location: str | None = None, name: str = "t", **more: Any) -> Answer:
    where = {} if location is None else {"location": str(location)}
    return client.post("/namespaces/ns/tables", {"name": name, "schema": SCHEMA, **where, **more})


def commit_new(client: Client, staged: dict[str, Any], name: str = "t", **changed: Any) -> Answer:
    """The commit that creates a staged table, as Java and PyIceberg send it."""
    updates = create_updates(staged["metadata"] | changed)
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    return client.post(f"/namespaces/ns/tables/{name}", body)


def put_file(location: str, name: str = "data/a.parquet", content: bytes = b"x") -> None:
    path = Path(location.removeprefix("file://")) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# --- create ----------------------------------------------------------------------------------------------------------


def test_create_alone_gives_the_default_location_and_no_other(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    ann = guarded.user("ann", ("create", namespace("ns")))
    for location in (left, f"{left}/data", root / "ns" / "elsewhere", root / "elsewhere", root / "other" / "t"):
        for more in ({}, {"stage-create": True}):
            assert create(ann, location, **more).error[:2] == FORBIDDEN, location
    assert create(ann, f"file://{root}/ns/t").status == 200  # as Trino does
    assert create(ann, f"file://{root}/ns/u-0f8fad5bd9cb469fa16570867728950e", name="u").status == 200
    assert create(ann, name="v").status == 200


def test_a_manager_of_the_namespace_puts_tables_into_its_folder_only(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    ann = guarded.user("ann", ("manage", namespace("ns")))
    for location in (left, root / "elsewhere", root / "ns2" / "t", root / "other" / "t"):
        assert create(ann, location).error[:2] == FORBIDDEN, location
        path = {"write.data.path": str(location)}
        assert create(ann, properties=path).error[:2] == FORBIDDEN, location
    assert create(ann, root / "ns" / "deep" / "t").status == 200
    guarded.grant("manage", WAREHOUSE, "ann")
    assert create(ann, left, name="u").status == 200
    assert create(ann, name="v", properties={"write.data.path": str(root / "elsewhere")}).status == 200


def test_a_link_in_the_folder_of_the_namespace_does_not_lead_out_of_it(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    create(guarded.admin, name="first")
    (root / "ns" / "t").symlink_to(left.removeprefix("file://"))
    (root / "ns" / "u-1234abcd").symlink_to(left.removeprefix("file://"))
    ann = guarded.user("ann", ("create", namespace("ns")))
    bob = guarded.user("bob", ("manage", namespace("ns")))
    assert create(ann, root / "ns" / "t").error[:2] == FORBIDDEN
    assert create(bob, root / "ns" / "u-1234abcd", name="u").error[:2] == FORBIDDEN


def test_a_place_in_the_location_of_another_namespace_needs_manage_on_the_warehouse(
    guarded: Guarded, root: Path
) -> None:
    hidden = {"namespace": ["hidden"], "properties": {"location": str(root / "ns" / "hidden")}}
    assert guarded.admin.post("/namespaces", hidden).status == 200
    ann = guarded.user("ann", ("manage", namespace("ns")))
    refused = create(ann, root / "ns" / "hidden" / "x").error
    assert refused[:2] == FORBIDDEN
    assert "hidden" not in refused[2].replace(str(root), "")


def test_a_location_that_the_catalog_chooses_is_empty(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded, "t", "ns")
    ann = guarded.user("ann", ("create", namespace("ns")))
    for client in (ann, guarded.admin):
        location = create(client, name="t").body["metadata"]["location"]
        assert location.startswith(f"{left}-")
        assert client.delete("/namespaces/ns/tables/t").status == 204
    staged = create(ann, **{"stage-create": True}).body["metadata"]["location"]
    assert staged.startswith(f"{left}-")
    assert create(ann, left).error[:2] == FORBIDDEN
    assert create(ann, location).error[:2] == FORBIDDEN


def test_who_may_create_gets_404_for_a_table_that_does_not_exist_yet(guarded: Guarded) -> None:
    ann = guarded.user("ann", ("create", namespace("ns")))
    assert ann.get("/namespaces/ns/tables/t").error[:2] == (404, "NoSuchTableException")  # DuckDB looks first
    assert ann.delete("/namespaces/ns/views/t").error[:2] == (404, "NoSuchViewException")
    create(guarded.admin)
    assert ann.get("/namespaces/ns/tables/t").error[:2] == FORBIDDEN
    assert ann.delete("/namespaces/ns/views/t").error[:2] == (404, "NoSuchViewException")


# --- staged creates --------------------------------------------------------------------------------------------------


STAGE = {"stage-create": True}


def test_a_staged_table_is_created_where_it_was_staged_with_its_files(guarded: Guarded, root: Path) -> None:
    ann, bob = (guarded.user(name, ("create", namespace("ns"))) for name in ("ann", "bob"))
    default = f"file://{root}/ns/t"
    for where in ({}, {"location": default}, {"location": f"{default}-0f8fad5bd9cb469fa16570867728950e"}):
        staged = create(ann, **STAGE, **where).body
        put_file(staged["metadata"]["location"])
        assert commit_new(bob, staged).error[:2] == FORBIDDEN
        assert commit_new(ann, staged).status == 200
        assert ann.delete("/namespaces/ns/tables/t").status == 204


def test_a_staged_table_gets_a_place_that_no_other_table_gets(guarded: Guarded, root: Path) -> None:
    ann, bob = (guarded.user(name, ("create", namespace("ns"))) for name in ("ann", "bob"))
    default = f"file://{root}/ns/t"
    for client in (ann, guarded.admin):
        assert re.fullmatch(f"{default}-[0-9a-f]{{8}}", create(client, **STAGE).body["metadata"]["location"])
    staged = create(ann, default, **STAGE).body  # as Trino does
    assert create(bob).body["metadata"]["location"] == default
    assert bob.delete("/namespaces/ns/tables/t").status == 204
    assert commit_new(ann, staged).body["metadata"]["location"].startswith(f"{default}-")
    managed = create(guarded.admin, f"file://{root}/ns/u", name="u", **STAGE).body["metadata"]["location"]
    assert managed == f"file://{root}/ns/u"


def test_a_place_that_was_staged_is_used_once(guarded: Guarded, root: Path) -> None:
    ann = guarded.user("ann", ("create", namespace("ns")))
    staged = create(ann, **STAGE).body
    suffixed = create(ann, f"file://{root}/ns/t-1234abcd", **STAGE).body
    assert commit_new(ann, staged).status == 200
    assert guarded.admin.delete("/namespaces/ns/tables/t").status == 204
    assert commit_new(ann, staged).error[:2] == FORBIDDEN
    assert create(ann, f"file://{root}/ns/t-1234abcd").status == 200
    assert guarded.admin.delete("/namespaces/ns/tables/t").status == 204
    assert commit_new(ann, suffixed).error[:2] == FORBIDDEN


def test_a_staged_table_is_created_after_a_commit_that_broke_off(guarded: Guarded, root: Path) -> None:
    ann = guarded.user("ann", ("create", namespace("ns")))
    staged = create(ann, **STAGE).body
    left = json.dumps(staged["metadata"]).encode()
    put_file(staged["metadata"]["location"], "metadata/00000-a.metadata.json", left)  # never current
    assert commit_new(ann, staged).status == 200


def test_rights_at_a_named_place_are_checked_again_when_a_staged_table_is_created(guarded: Guarded, root: Path) -> None:
    ann = guarded.user("ann", ("manage", namespace("ns")))
    first, second = (create(ann, root / "ns" / place, name=place, **STAGE).body for place in ("deep", "deeper"))
    elsewhere = create(ann, root / "ns" / "elsewhere", **STAGE).body
    for staged in (first, second, elsewhere):
        put_file(staged["metadata"]["location"])
    assert commit_new(ann, first, name="deep").status == 200
    guarded.revoke("manage", namespace("ns"), "ann")
    guarded.grant("create", namespace("ns"), "ann")
    assert commit_new(ann, second, name="deeper").error[:2] == FORBIDDEN
    assert commit_new(ann, elsewhere).error[:2] == FORBIDDEN


def test_the_commit_of_a_staged_table_names_no_other_place(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    leave_files(guarded, "t", "ns")
    ann = guarded.user("ann", ("create", namespace("ns")))
    staged = create(ann, **{"stage-create": True}).body
    for location in (left, f"{root}/ns/t", f"{root}/ns/u", f"{root}/x"):
        assert commit_new(ann, staged, location=location).error[:2] == FORBIDDEN
    clock = guarded.server.app.ctx.clock
    put_file(staged["metadata"]["location"])
    guarded.server.app.ctx.clock = lambda: clock() + 25 * 3600 * 1000
    assert commit_new(ann, staged).error[:2] == FORBIDDEN


# --- changes ---------------------------------------------------------------------------------------------------------


def test_the_creator_of_a_table_does_not_move_it_onto_files_of_others(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    ann = guarded.user("ann", ("create", namespace("ns")))
    location = create(ann).body["metadata"]["location"]
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    assert ann.post("/namespaces/ns/views", view | {"location": left}).error[:2] == FORBIDDEN
    assert ann.post("/namespaces/ns/views", view).status == 200
    for place in (left, f"{root}/ns/elsewhere", f"{root}/elsewhere"):
        moves: list[dict[str, Any]] = [{"action": "set-location", "location": place}]
        for name in ("write.data.path", "write.metadata.path", "write.object-storage.path"):
            moves.append({"action": "set-properties", "updates": {name: place}})
        for move in moves:
            assert ann.commit(move).error[:2] == FORBIDDEN, move
        change = {"identifier": {"namespace": ["ns"], "name": "t"}, "requirements": [], "updates": [moves[0]]}
        assert ann.post("/transactions/commit", {"table-changes": [change]}).error[:2] == FORBIDDEN
        replaced = ann.post("/namespaces/ns/views/v", {"requirements": [], "updates": [moves[0]]})
        assert replaced.error[:2] == FORBIDDEN
    inside = {"action": "set-properties", "updates": {"write.data.path": f"{location}/files"}}
    assert ann.commit(inside).status == 200
    guarded.grant("manage", namespace("ns"), "ann")
    assert ann.commit({"action": "set-location", "location": f"{root}/ns/elsewhere"}).status == 200
    assert ann.commit({"action": "set-location", "location": location}).status == 200


def test_register_needs_manage_on_what_contains_the_files(guarded: Guarded, root: Path) -> None:
    outside = guarded.admin.create("o", "other")["metadata-location"]
    inside = guarded.admin.create("i", "ns")["metadata-location"]
    overwritten = guarded.admin.create("w", "ns")["metadata-location"]
    for path in ("other/tables/o", "ns/tables/i"):
        assert guarded.admin.delete(f"/namespaces/{path}").status == 204
    ann = guarded.user("ann", ("register", namespace("ns")), ("drop", table("w")))
    bob = guarded.user("bob", ("manage", namespace("ns")))

    def register(client: Client, location: str, name: str = "r", **more: Any) -> Answer:
        return client.post("/namespaces/ns/register", {"name": name, "metadata-location": location, **more})

    missing = outside.replace("00000-", "00009-")
    for location in (outside, missing, inside):
        assert register(ann, location).error[:2] == FORBIDDEN
    assert register(ann, overwritten, "w", overwrite=True).error[:2] == FORBIDDEN
    for location in (outside, missing):
        assert register(bob, location).error[:2] == FORBIDDEN
    assert register(bob, inside).status == 200
    assert register(guarded.admin, outside, "a").status == 200


def test_a_namespace_gets_no_location_outside_of_what_the_caller_manages(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    ann = guarded.user("ann", ("manage", namespace("ns")))
    for place in (left, f"{root}/other", f"{root}/elsewhere"):
        update = ann.post("/namespaces/ns/properties", {"updates": {"location": place}})
        assert update.error[:2] == FORBIDDEN
        child = {"namespace": ["ns", "sub"], "properties": {"location": place}}
        assert ann.post("/namespaces", child).error[:2] == FORBIDDEN
    below = {"namespace": ["ns", "sub"], "properties": {"location": f"{root}/ns/s"}}
    assert ann.post("/namespaces", below).status == 200
    assert ann.post("/namespaces/ns/properties", {"updates": {"location": f"{root}/ns/deep"}}).status == 200
    assert guarded.admin.post("/namespaces/ns/properties", {"updates": {"location": f"{root}/x"}}).status == 200


def test_a_namespace_of_a_name_that_was_dropped_does_not_get_its_files(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    assert guarded.admin.delete("/namespaces/other").status == 204
    ann = guarded.user("ann", ("create", WAREHOUSE))
    assert ann.post("/namespaces", {"namespace": ["other"]}).status == 200
    assert ann.post("/namespaces/other/tables", {"name": "x", "schema": SCHEMA, "location": left}).status == 403
    location = ann.post("/namespaces/other/tables", {"name": "x", "schema": SCHEMA}).body["metadata"]["location"]
    assert location.startswith(f"file://{root}/other-")


def test_a_namespace_does_not_go_back_to_a_default_location_with_files_of_others(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded)
    assert guarded.admin.delete("/namespaces/other").status == 204
    ann = guarded.user("ann", ("create", WAREHOUSE))
    assert ann.post("/namespaces", {"namespace": ["other"]}).status == 200
    back = {"updates": {"location": f"file://{root}/other"}}
    for change in ({"removals": ["location"]}, back):
        assert ann.post("/namespaces/other/properties", change).error[:2] == FORBIDDEN, change
    child = ann.post("/namespaces", {"namespace": ["other", "secret"]}).body["properties"]["location"]
    assert re.fullmatch(rf"file://{root}/other-[0-9a-f]{{8}}/secret-[0-9a-f]{{8}}", child)
    shutil.rmtree(left.removeprefix("file://"))
    assert ann.post("/namespaces/other/properties", {"removals": ["location"]}).status == 200
    assert ann.post("/namespaces/other/properties", back).status == 200  # it is there


def test_a_child_namespace_does_not_get_the_folder_of_a_dropped_table(guarded: Guarded, root: Path) -> None:
    left = leave_files(guarded, "t", "ns")
    ann, bob = guarded.user("ann", ("create", namespace("ns"))), guarded.user("bob", ("manage", namespace("ns")))
    assert ann.post("/namespaces", {"namespace": ["ns", "t"]}).body["properties"]["location"].startswith(f"{left}-")
    assert ann.post("/namespaces/ns%1Ft/properties", {"removals": ["location"]}).error[:2] == FORBIDDEN
    assert bob.post("/namespaces/ns%1Ft/properties", {"removals": ["location"]}).status == 200


def test_a_new_namespace_does_not_share_the_folder_of_another(guarded: Guarded, root: Path) -> None:
    ann = guarded.user("ann", ("create", WAREHOUSE))
    twin = folder_name("a b")

    def make(client: Client, *levels: str, **properties: str) -> str | None:
        answer = client.post("/namespaces", {"namespace": levels, "properties": properties})
        location: str | None = answer.body["properties"].get("location")
        return location

    make(guarded.admin, "sales", location=f"file://{root}/legacy/sales")
    for levels in (("legacy",), ("legacy", "sales"), ("legacy", "sales", "deep")):  # contains it, is it, lies in it
        location = make(ann, *levels) or ""
        assert re.fullmatch(rf"file://{root}/legacy-[0-9a-f]{{8}}(/\w+-[0-9a-f]{{8}})*", location), levels
    make(guarded.admin, "a b")
    assert (make(ann, twin) or "").startswith(f"file://{root}/{twin}-")
    assert make(guarded.admin, "c d") is None
    other = folder_name("e f")
    assert make(ann, other) is None
    assert (make(guarded.admin, "e f") or "").startswith(f"file://{root}/{other}-")
    assert ann.post(f"/namespaces/{twin}/properties", {"removals": ["location"]}).error[:2] == FORBIDDEN


def test_of_two_namespaces_with_one_folder_the_one_that_names_it_has_it(guarded: Guarded, root: Path) -> None:
    ann = guarded.user("ann", ("manage", namespace("ns")))
    bob = guarded.user("bob", ("manage", namespace("other")))
    moved = guarded.admin.post("/namespaces/other/properties", {"updates": {"location": f"{root}/ns"}})
    assert moved.status == 200
    file = guarded.admin.create("secret", "other")["metadata-location"]
    assert guarded.admin.delete("/namespaces/other/tables/secret").status == 204
    registration = {"name": "secret", "metadata-location": file}
    assert ann.post("/namespaces/ns/register", registration).error[:2] == FORBIDDEN
    assert create(ann, root / "ns" / "elsewhere").error[:2] == FORBIDDEN
    assert bob.post("/namespaces/other/register", registration).status == 200


def test_a_namespace_does_not_get_the_place_of_a_table_that_has_no_files_in_it(guarded: Guarded, root: Path) -> None:
    metadata = {"write.metadata.path": str(root / "elsewhere")}
    create(guarded.admin, root / "later" / "t", properties=metadata)
    ann = guarded.user("ann", ("create", WAREHOUSE))
    assert "location" in ann.post("/namespaces", {"namespace": ["later"]}).body["properties"]


def test_a_refused_place_does_not_name_a_table_that_the_caller_may_not_see(guarded: Guarded, root: Path) -> None:
    guarded.admin.create("hidden", "ns", location=str(root / "ns" / "t"))
    ann = guarded.user("ann", ("create", namespace("ns")))
    refused = create(ann, root / "ns" / "t")
    assert refused.status == 403
    assert "hidden" not in str(refused.body)


# --- the case of letters ---------------------------------------------------------------------------------------------


def test_places_that_differ_in_case_only_overlap(guarded: Guarded, root: Path) -> None:
    location = create(guarded.admin, name="sales").body["metadata"]["location"]
    guarded.admin.post("/namespaces", {"namespace": ["NS"]})
    for ns, name in (("ns", "Sales"), ("NS", "sales"), ("ns", "\u017fales")):
        other = guarded.admin.create(name, ns)["metadata"]["location"]
        assert re.fullmatch(r".+-[0-9a-f]{8}", other.removeprefix(location[: -len("ns/sales")])), other
    for place in (f"{root}/ns/SALES", f"{root}/Ns/sales/deep", f"{root}/nS"):
        assert create(guarded.admin, place, name="x").error[0] == 403, place
        moved = guarded.admin.commit({"action": "set-location", "location": place}, table="Sales")
        assert moved.error[0] == 403, place
    assert create(guarded.admin, f"{root}/ns/sales2", name="x").status == 200


def test_of_two_tables_whose_places_differ_in_case_only_one_is_created(
    guarded: Guarded, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, others = guarded.server.app.ctx.files, [f"{root}/X/T"]
    write = type(files).write_versions

    def create_other_first(self: Any, versions: Any) -> None:
        if others:
            assert create(guarded.admin, others.pop(), name="other").status == 200
        write(self, versions)

    monkeypatch.setattr(type(files), "write_versions", create_other_first)
    assert create(guarded.admin, f"{root}/x/t").error[0] == 403


def test_places_of_older_databases_are_folded_at_the_start(database: str, tmp_path: Path) -> None:
    with running_catalog(tmp_path, database=database) as server:
        client = Client(server.uri)
        for name in ("Sales", "sales"):  # without authentication both get what they ask for
            assert client.create(name)["metadata"]["location"].endswith(f"/ns/{name}")
        client.session.close()
    opened = open_database(database)
    try:
        opened.write(lambda sql: sql.run("UPDATE places SET folded = NULL"))
        store_missing_places(opened, MetadataFiles(VersionCache(0)))
        folded = set(opened.read().rows("SELECT place, folded FROM places"))
    finally:
        opened.close()
    assert len(folded) == 2
    assert folded == {(place, place.lower()) for place, _ in folded}


def test_authentication_off_leaves_the_choice_of_locations_as_it_was(tmp_path: Path) -> None:
    with running_catalog(tmp_path) as server:
        client = Client(server.uri)
        location = client.create()["metadata"]["location"]
        assert client.delete("/namespaces/ns/tables/t").status == 204
        assert client.create()["metadata"]["location"] == location
        assert client.create("u", location=f"{location}2")["metadata"]["location"] == f"{location}2"
        client.session.close()


def test_a_place_that_is_taken_during_a_registration_does_not_tell_by_whom(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = guarded.user("ann", ("manage", namespace("ns")))
    loaded = create(ann).body
    assert ann.delete("/namespaces/ns/tables/t").status == 204
    check, location = plan.check_places, loaded["metadata"]["location"]

    def take_after_check(*values: Any, **options: Any) -> dict[str, str]:
        claims = check(*values, **options)
        if options.get("registers"):
            body = {"name": "hidden", "schema": SCHEMA, "location": location}
            assert guarded.admin.post("/namespaces/other/tables", body).status == 200
        return claims

    monkeypatch.setattr(plan, "check_places", take_after_check)
    body = {"name": "u", "metadata-location": loaded["metadata-location"]}
    status, _, message = ann.post("/namespaces/ns/register", body).error
    assert (status, "overlaps another table" in message, "hidden" in message) == (403, True, False)
