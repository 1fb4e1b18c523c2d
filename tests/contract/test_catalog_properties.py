"""Properties by which a table would run code in its readers, or send their credentials elsewhere: refused, hidden and
dropped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from frazil import Table, column, sinks
from frazil.catalog.embedded import EmbeddedCatalog, running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import DeclarationError
from frazil.lake import Lake
from frazil.upkeep import compact
from frazil.upkeep.steps import Keeper
from tests.kit.catalog_databases import SCHEMA, Client
from tests.kit.raising import raises

REFUSED = (
    "write.py-location-provider.impl", "write.location-provider.impl", "py-io-impl", "py-catalog-impl", "io-impl",
    "metrics-reporter-impl",
    "s3.endpoint", "s3.signer.uri", "signer.uri", "client.region", "glue.endpoint", "gcs.service.host", "adls.token",
    "hdfs.host",
    "hf.endpoint", "fs.s3a.endpoint", "uri", "token", "credential", "header.X-Forwarded", "rest.sigv4-enabled",
    " S3.Endpoint ", "URI",
)  # fmt: skip
ACCEPTED = (
    "owner", "comment", "format-version-hint", "write.data.compression", "write.object-storage.enabled",
    "write.metadata.compression-codec",
    "write.parquet.compression-codec", "write.metadata.metrics.column.py-impl",
    "write.parquet.bloom-filter-enabled.column.some-impl",
    "commit.retry.num-retries", "read.split.target-size", "history.expire.max-snapshot-age-ms", "gc.enabled",
    "engine.hive.enabled",
    "encryption.key-id", "schema.name-mapping.default", "frazil.progress.py-work", "frazil.progress.new-impl",
    "spark.sql.create.version",
    "python", "s3", "uris", "my.uri.of.docs",
)  # fmt: skip
CANARY = "frazil_canary"


def view(**properties: str) -> dict[str, Any]:
    version = {
        "version-id": 1, "timestamp-ms": 1, "schema-id": -1, "summary": {"engine": "t"}, "default-namespace": ["ns"],
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }  # fmt: skip
    return {"name": "v", "schema": SCHEMA, "view-version": version, "properties": properties}


def set_properties(**properties: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": properties}


ENTRANCES: dict[str, Callable[[Client, str], Any]] = {
    "create": lambda client, name: client.post(
        "/namespaces/ns/tables", {"name": "n", "schema": SCHEMA, "properties": {name: "x"}}
    ),
    "staged create": lambda client, name: client.post(
        "/namespaces/ns/tables", {"name": "n", "schema": SCHEMA, "properties": {name: "x"}, "stage-create": True}
    ),
    "commit": lambda client, name: client.commit(set_properties(**{name: "x"})),
    "transaction": lambda client, name: client.post(
        "/transactions/commit",
        {
            "table-changes": [
                {
                    "identifier": {"namespace": ["ns"], "name": "t"},
                    "requirements": [],
                    "updates": [set_properties(**{name: "x"})],
                }
            ]
        },
    ),
    "create view": lambda client, name: client.post("/namespaces/ns/views", view(**{name: "x"})),
    "commit view": lambda client, name: client.post(
        "/namespaces/ns/views/w", {"requirements": [], "updates": [set_properties(**{name: "x"})]}
    ),
}


@pytest.fixture(scope="module")
def open_client() -> Iterator[Client]:
    """A client of a catalog with a table `t` and a view `w`."""
    with running_catalog() as server:
        client = Client(server.uri)
        client.create()
        assert client.post("/namespaces/ns/views", {**view(), "name": "w"}).status == 200
        yield client
        client.session.close()


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_properties_that_configure_clients_are_refused_wherever_they_are_set(
    open_client: Client, entrance: str
) -> None:
    answers = {name: ENTRANCES[entrance](open_client, name) for name in REFUSED}
    assert {name: answer.error[:2] for name, answer in answers.items()} == dict.fromkeys(
        REFUSED, (403, "ForbiddenException")
    )
    assert open_client.get("/namespaces/ns/tables").body["identifiers"] == [{"namespace": ["ns"], "name": "t"}]


def test_properties_of_engines_and_of_frazil_are_accepted(open_client: Client) -> None:
    wanted = dict.fromkeys(ACCEPTED, "1")
    result = open_client.create("ordinary", properties=wanted)
    assert {name: result["metadata"]["properties"].get(name) for name in ACCEPTED} == wanted


def test_set_and_removed_in_one_commit_is_nothing_new(open_client: Client) -> None:
    answer = open_client.commit(
        set_properties(**{"s3.region": "x", "a": "b"}), {"action": "remove-properties", "removals": ["s3.region"]}
    )
    assert (answer.status, answer.body["metadata"]["properties"]["a"]) == (200, "b")


# --- stored before they were refused ---------------------------------------------------------------------------------


def plant(values: dict[str, Any], **properties: str) -> Path:
    """Writes properties into the metadata file of a load result, as an older catalog would have."""
    path = Path(values["metadata-location"].removeprefix("file://"))
    document = json.loads(path.read_bytes())
    document["properties"] |= properties
    path.write_text(json.dumps(document))
    return path


@contextmanager
def old_lake(folder: Path, **properties: str) -> Iterator[Client]:
    """A catalog whose table `t` and view `v` have had these properties for long."""
    with running_catalog(folder) as server:
        client = Client(server.uri)
        plant(client.create(properties={"kept": "1"}), **properties)
        plant(client.post("/namespaces/ns/views", view(kept="1")).body, **properties)
    with running_catalog(folder) as server:
        yield Client(server.uri)


STORED = {
    "py-io-impl": f"{CANARY}.IO",
    "write.py-location-provider.impl": f"{CANARY}.Locations",
    "s3.endpoint": "http://127.0.0.1:9",
}


def test_stored_ones_are_not_served_and_the_table_stays_committable(tmp_path: Path) -> None:
    with old_lake(tmp_path, **STORED) as client:
        answers = [client.load(), client.commit(set_properties(more="2")).body, client.load()]
        answers += [
            client.append(1, parent=None, sequence=1).body,
            client.get("/namespaces/ns/tables/t", snapshots="refs").body,
        ]
        served = [answer["metadata"]["properties"] for answer in answers]
        own = {"write.parquet.compression-codec": "zstd", "kept": "1"}
        assert served == [own, *([{**own, "more": "2"}] * 4)]
        file = json.loads(Path(answers[-1]["metadata-location"].removeprefix("file://")).read_bytes())
        assert file["properties"] == {**own, **STORED, "more": "2"}
        assert [snapshot["snapshot-id"] for snapshot in file["snapshots"]] == [1]


def test_stored_ones_of_a_view_are_not_served_either(tmp_path: Path) -> None:
    with old_lake(tmp_path, **STORED) as client:
        body = {"requirements": [], "updates": [set_properties(more="2")]}
        answers = [client.get("/namespaces/ns/views/v"), client.post("/namespaces/ns/views/v", body)]
        assert [answer.body["metadata"]["properties"] for answer in answers] == [
            {"kept": "1"},
            {"kept": "1", "more": "2"},
        ]


def test_a_stored_value_may_be_set_again_and_removed_but_not_changed(tmp_path: Path) -> None:
    with old_lake(tmp_path, **STORED) as client:
        assert client.commit(set_properties(**STORED)).status == 200
        assert client.commit(set_properties(**{"s3.endpoint": "http://elsewhere"})).status == 403
        assert client.commit({"action": "remove-properties", "removals": ["s3.endpoint"]}).status == 200
        assert client.commit(set_properties(**{"s3.endpoint": STORED["s3.endpoint"]})).status == 403


def test_a_client_does_not_keep_an_answer_of_an_older_catalog(tmp_path: Path) -> None:
    with running_catalog(tmp_path, allow_properties=["*"]) as server:
        client = Client(server.uri)
        client.create(properties=STORED)
        tag = client.get("/namespaces/ns/tables/t").headers["etag"]
    with running_catalog(tmp_path) as server:
        answer = Client(server.uri).call("GET", "/namespaces/ns/tables/t", headers={"If-None-Match": tag})
        again = Client(server.uri).call(
            "GET", "/namespaces/ns/tables/t", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert (answer.status, STORED.keys() & answer.body["metadata"]["properties"].keys(), again.status) == (
            200,
            set(),
            304,
        )


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_file_that_has_them_is_not_registered(tmp_path: Path, kind: str) -> None:
    with old_lake(tmp_path, **STORED) as client:
        location = client.get(f"/namespaces/ns/{kind}s/{kind[0]}").body["metadata-location"]
        route = "register" if kind == "table" else "register-view"
        answer = client.post(f"/namespaces/ns/{route}", {"name": "again", "metadata-location": location})
        assert answer.error[:2] == (403, "ForbiddenException")


def test_an_operator_can_allow_some(tmp_path: Path) -> None:
    with running_catalog(tmp_path, allow_properties=["write.location-provider.impl", "S3.*"]) as server:
        client = Client(server.uri)
        result = client.create(properties={"write.location-provider.impl": "com.acme.Locations", "s3.region": "eu"})
        assert result["metadata"]["properties"].keys() >= {"write.location-provider.impl", "s3.region"}
        assert client.commit(set_properties(**{"py-io-impl": "x"})).status == 403


# --- clients ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that leaves a file when it is imported."""
    mark = tmp_path / "imported"
    (tmp_path / f"{CANARY}.py").write_text(
        f"open({str(mark)!r}, 'w').close()\nclass IO:\n    def __init__(self, properties): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield mark
    sys.modules.pop(CANARY, None)


def test_pyiceberg_runs_nothing_that_a_stored_property_names(tmp_path: Path, canary: Path) -> None:
    with old_lake(tmp_path, **STORED) as client:
        catalog = RestCatalog("lake", uri=client.uri)
        table = catalog.load_table("ns.t")
        table.append(pa.table({"id": [1], "data": ["a"]}, schema=table.schema().as_arrow()))
        assert (catalog.load_table("ns.t").scan().to_arrow()["id"].to_pylist(), canary.exists()) == ([1], False)
        catalog.close()


@pytest.fixture
def careless(tmp_path: Path) -> Iterator[EmbeddedCatalog]:
    """A catalog that serves everything, with a table `ns.t` that has such properties."""
    with running_catalog(tmp_path / "careless", allow_properties=["*"]) as server:
        Client(server.uri).create(properties={**STORED, "kept": "1"})
        yield server


def test_the_attack_works_where_they_are_not_dropped(careless: EmbeddedCatalog, canary: Path) -> None:
    catalog = RestCatalog("lake", uri=careless.uri)
    assert (type(catalog.load_table("ns.t").io).__module__, canary.exists()) == (CANARY, True)
    catalog.close()


def test_the_client_drops_what_a_careless_catalog_serves(careless: EmbeddedCatalog, canary: Path) -> None:
    catalog = FrazilCatalog("lake", uri=careless.uri)
    table = catalog.load_table("ns.t")
    rows = pa.table({"id": [1], "data": ["a"]}, schema=table.schema().as_arrow())
    table.append(rows)  # the metadata of the commit's answer is what the next append goes by
    table.append(rows)
    with catalog.transaction() as tx:
        result = tx.create_table("ns.staged", table.schema(), properties=STORED)
        assert not STORED.keys() & result.table_metadata.properties.keys()
    names = {name for seen in (table, catalog.load_table("ns.t")) for name in (*seen.properties, *seen.io.properties)}
    assert (names & STORED.keys(), "kept" in names, canary.exists()) == (set(), True, False)
    assert catalog.load_table("ns.t").scan().to_arrow().num_rows == 2
    catalog.close()


def test_the_sink_upkeep_and_scans_import_nothing(careless: EmbeddedCatalog, canary: Path) -> None:
    catalog = FrazilCatalog("lake", uri=careless.uri)
    for position in (1, 2):
        with sinks.open("ns.t", catalog=catalog, name="w") as sink:
            sink.write([{"id": position, "data": "a"}], position=position)
    keeper = Keeper(catalog, ("ns", "t"), everything=True)
    report = keeper.perform(keeper.plan(compact.STEP))
    assert (report.files, Lake(catalog=catalog).table("ns.t").count(), canary.exists()) == (1, 2, False)
    catalog.close()


def test_a_declared_table_says_so_at_once() -> None:
    with raises(DeclarationError, option="s3.endpoint"):
        Table("lake.t", column("id", "long"), properties={"s3.endpoint": "http://elsewhere"})
