"""Locations: one meaning each, or a refusal; and what lies inside a warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.catalog.files.access import S3Access
from frazil.catalog.locations import folder_name, parse_location
from frazil.catalog.warehouse import Warehouses, open_warehouse
from frazil.errors import BadRequest, ConfigError, LocationRefused, MalformedLocation, NoSuchWarehouse
from tests.kit.raising import raises


@pytest.mark.parametrize(
    "location",
    [
        "",
        "relative/path",
        "file:relative",
        "file://host/path",
        "file:///w/../etc",
        "file:///w/./x",
        "file:///w/%2e%2e/etc",
        "file:///w/%2E%2E/etc",
        "file:///w/a%2Fb",
        "file:///w/a%5cb",
        "file:///w/a\\..\\b",
        "file:///w/a\x00b",
        "file:///w/a\nb",
        "file:///w/t?x=1",
        "file:///w/t#x",
        "s3:/bucket/key",
        "s3:///key",
        "s3://bu cket/key",
        "gs://bucket/key",
        "http://host/x",
        "file:///" + "x" * 5000,
    ],
)
def test_a_location_that_could_mean_two_places_is_refused(location: str) -> None:
    with pytest.raises(MalformedLocation):
        parse_location(location)


def test_spellings_of_one_place_are_equal() -> None:
    assert (
        len(
            {
                parse_location(text)
                for text in ("file:/w/t", "file:///w/t", "file:///w//t/", "file://localhost/w/t", "/w/t")
            }
        )
        == 1
    )
    assert len({parse_location(text) for text in ("s3://b/k/x", "s3a://b/k/x/", "S3N://b//k/x")}) == 1


@pytest.fixture
def warehouses(tmp_path: Path) -> Warehouses:
    return Warehouses({"default": str(tmp_path / "w"), "lake": "s3://bucket/lake"}, [str(tmp_path / "allowed")])


def test_only_the_warehouse_and_allowed_prefixes_may_be_written(warehouses: Warehouses, tmp_path: Path) -> None:
    for good in (f"file://{tmp_path}/w/ns/t", f"{tmp_path}/allowed/x", f"file:{tmp_path}/w"):
        warehouses.check(warehouses.default, good)
    for bad in (
        f"file://{tmp_path}/other/t",
        f"file://{tmp_path}/w2/t",
        f"{tmp_path}/allowed-not/x",
        "s3://bucket/lake/t",
        "/etc",
    ):
        with pytest.raises(LocationRefused):
            warehouses.check(warehouses.default, bad)


def test_a_bucket_of_a_similar_name_is_another_place(warehouses: Warehouses) -> None:
    lake = warehouses.named("lake")
    warehouses.check(lake, "s3a://bucket/lake/ns/t")
    for bad in ("s3://bucket/lakes/t", "s3://bucket2/lake/t", "s3://bucket/other"):
        with pytest.raises(LocationRefused):
            warehouses.check(lake, bad)


def test_a_link_that_leads_out_of_the_warehouse_is_refused(warehouses: Warehouses, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "inside").mkdir()
    (tmp_path / "w" / "out").symlink_to(tmp_path)
    (tmp_path / "w" / "in").symlink_to(tmp_path / "w" / "inside")
    warehouses.check(warehouses.default, f"{tmp_path}/w/in/t")
    with pytest.raises(LocationRefused):
        warehouses.check(warehouses.default, f"{tmp_path}/w/out/t")


def test_a_warehouse_is_found_by_name_and_by_place(warehouses: Warehouses) -> None:
    names = [warehouses.named(name).name for name in (None, "", "lake", "s3://bucket/lake/", "s3a://bucket/lake")]
    assert names == ["default", "default", "lake", "lake", "lake"]
    with raises(NoSuchWarehouse, name="nope"):
        warehouses.named("nope")


def test_a_place_is_reached_as_the_innermost_warehouse_around_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://environment")
    roots = {"outer": "s3://lake/a", "inner": "s3://lake/a/b", "next": "s3://lake/c"}
    warehouses = Warehouses({"plain": "s3://lake/d"}, ["s3://lake/e"], allow_overlap=True)
    warehouses.replace_stored(
        open_warehouse(name, root, S3Access(access_key_id=name, secret_access_key="s")) for name, root in roots.items()
    )

    def key_at(location: str) -> str | None:
        return warehouses.access_to(parse_location(location)).access_key_id

    locations = (
        "s3://lake/a/t",
        "s3a://lake/a/b/t",
        "s3://lake/a/bc",
        "s3://lake/c/t",
        "s3://lake/d/t",
        "s3://lake/e/t",
    )
    assert [key_at(location) for location in locations] == ["outer", "inner", "outer", "next", None, None]
    assert warehouses.access_to(parse_location("s3://lake/e/t")).endpoint == "http://environment"


@pytest.mark.parametrize("name", ["namespaces", "config", "a/b", "a b", ""])
def test_a_warehouse_name_that_a_path_cannot_hold_is_refused(name: str) -> None:
    with raises(ConfigError, option="server.warehouses", name=name):
        Warehouses({name: "/w"})


def test_folder_names_are_distinct_and_safe() -> None:
    names = ["a/b", "a_b", "a\\b", "..", ".", "a\u2028b", "x" * 300, "ünï", "a b", " lead", "a%2Fb"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    for folder in folders:
        assert parse_location(f"file:///w/{folder}").path == f"/w/{folder}"


def test_a_server_needs_a_warehouse() -> None:
    with raises(ConfigError, option="server.warehouses", problem="missing"):
        Warehouses({}).check_any()


def test_a_refusal_is_a_bad_request_or_forbidden() -> None:
    assert issubclass(MalformedLocation, BadRequest)
