"""Warehouses in the database: created, changed and dropped under running servers, on both databases."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import requests

from frazil.catalog import (
    Database,
    Operator,
    SecretKeys,
    ServerOptions,
    Target,
    change_grant,
    create_role,
    create_warehouse,
    describe_warehouse,
    drop_warehouse,
    list_warehouses,
    migrate,
    newest_records,
    open_context,
    open_database,
    rekey_warehouses,
    running_catalog,
    update_warehouse,
)
from frazil.catalog.embedded import EmbeddedCatalog
from frazil.catalog.files.access import S3Access
from frazil.catalog.files.s3 import S3Files
from frazil.catalog.http import Request
from frazil.catalog.locations import Place
from frazil.catalog.store import access
from frazil.catalog.store import warehouses as store
from frazil.errors import (
    ConfigError,
    FrazilError,
    LocationRefused,
    MalformedLocation,
    MetadataMissing,
    WarehouseError,
)
from frazil.processes import wait_until
from tests.kit.access import guarded_catalog, now_ms, table
from tests.kit.catalog_databases import Client
from tests.kit.raising import raises

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
SECRET = "hunter2-is-not-in-the-database"
KEYS = {"access_key_id": "AKIA1", "endpoint": "http://127.0.0.1:9"}


@pytest.fixture
def opened(database: str) -> Iterator[Database]:
    opened = open_database(database)
    migrate(opened)
    yield opened
    opened.close()


def operator(**more: Any) -> Operator:
    return Operator("test", now_ms(), **{"keys": SecretKeys([KEY]), **more})


def with_keys(opened: Database, name: str = "cold", root: str = "s3://lake/cold") -> None:
    create_warehouse(opened, name, root, KEYS, SECRET, operator())


def options(database: str, folder: Path, **more: Any) -> ServerOptions:
    return ServerOptions(database, {"default": str(folder / "default")}, **more)


def config(server: EmbeddedCatalog, warehouse: str) -> Any:
    reply = requests.get(f"{server.uri}/v1/config", params={"warehouse": warehouse}, timeout=30)
    return reply.json() if reply.status_code == 200 else reply.status_code


def test_a_running_server_serves_a_new_warehouse_at_once_and_a_dropped_one_no_more(
    opened: Database, database: str, tmp_path: Path
) -> None:
    with running_catalog(tmp_path, database=database) as server:
        assert config(server, "cold") == 404
        create_warehouse(opened, "cold", str(tmp_path / "cold"), {}, None, operator())
        assert config(server, "cold")["overrides"]["prefix"] == "cold"
        assert config(server, f"file://{tmp_path}/cold/")["overrides"]["prefix"] == "cold"
        client = Client(server.uri, prefix="cold")
        location = client.create()["metadata"]["location"]
        assert location.startswith(f"file://{tmp_path}/cold/")
        with raises(WarehouseError, problem="not-empty", name="cold"):
            drop_warehouse(opened, "cold", operator())
        assert client.delete("/namespaces/ns/tables/t").status == 204
        assert client.delete("/namespaces/ns").status == 204
        drop_warehouse(opened, "cold", operator())
        assert wait_until(lambda: config(server, "cold") == 404, 30)
        client.session.close()
    assert Path(location.removeprefix("file://")).exists()  # dropping deletes no file


def test_a_server_that_has_not_noticed_a_drop_creates_no_namespace(
    opened: Database, database: str, tmp_path: Path
) -> None:
    create_warehouse(opened, "cold", str(tmp_path / "cold"), {}, None, operator())
    with running_catalog(tmp_path, database=database) as server:
        server.app.ctx.stored.close()  # type: ignore[union-attr]  # it looks no more
        drop_warehouse(opened, "cold", operator())
        client = Client(server.uri, prefix="cold")
        assert client.post("/namespaces", {"namespace": ["ns"]}).error[:2] == (404, "NoSuchWarehouseException")
        client.session.close()
    assert opened.read().rows("SELECT count(*) FROM namespaces WHERE warehouse = 'cold'")[0][0] == 0


def test_grants_on_the_default_warehouse_do_not_hold_for_one_that_becomes_the_default(
    database: str, tmp_path: Path
) -> None:
    settings = {"first": str(tmp_path / "first")}
    with guarded_catalog(tmp_path, database, warehouses=settings) as guarded:
        Client(guarded.server.uri, "first", guarded.admin.session).create()
        reader = guarded.user("reader", ("read", table("t", warehouse="first")))
        uri = f"{guarded.server.uri}/v1/namespaces/ns/tables/t"  # without a prefix: in the default warehouse

        def load() -> int:
            return reader.session.get(uri, timeout=30).status_code

        assert [load(), load()] == [200, 200]
        root = str(tmp_path / "default")
        create_warehouse(guarded.database, "default", root, {}, None, operator(settings=settings))
        Client(guarded.server.uri, "default", guarded.admin.session).create()
        assert [load(), load()] == [404, 404]


def test_scans_of_a_warehouse_that_is_created_again_elsewhere_read_there(
    opened: Database, database: str, tmp_path: Path
) -> None:
    ctx = open_context(options(database, tmp_path))
    roots = [tmp_path / "one", tmp_path / "two"]
    for root, other in zip(roots, reversed(roots), strict=True):
        create_warehouse(opened, "cold", str(root), {}, None, operator())
        assert ctx.stored is not None
        assert ctx.stored.refresh()
        manifests = ctx.manifests(Request("GET", "", {"prefix": "cold"}))
        with raises(MetadataMissing):  # it was looked for
            manifests.manifest_list(f"file://{root}/list.avro")
        with raises(LocationRefused):
            manifests.manifest_list(f"file://{other}/list.avro")
        drop_warehouse(opened, "cold", operator())
    ctx.close()


def test_changed_keys_are_used_without_a_restart(opened: Database, database: str, tmp_path: Path) -> None:
    with_keys(opened)
    with running_catalog(tmp_path, database=database, secret_key=KEY.hex()) as server:
        warehouses = server.app.ctx.warehouses

        def keys() -> tuple[str | None, str | None]:
            access = warehouses.named("cold").access
            return access.access_key_id, access.secret_access_key

        assert keys() == ("AKIA1", SECRET)
        update_warehouse(opened, "cold", {"access_key_id": "AKIA2"}, "hunter3", operator())
        assert wait_until(lambda: keys() == ("AKIA2", "hunter3"), 30)
        update_warehouse(opened, "cold", {"region": "eu-west-1"}, None, operator())
        config(server, "unknown")  # has it look at once
        assert (warehouses.named("cold").access.region, *keys()) == ("eu-west-1", "AKIA2", "hunter3")
        assert "hunter3" not in repr(warehouses.named("cold"))
        update_warehouse(opened, "cold", {}, None, operator(), forget_keys=True)
        config(server, "unknown")
        assert keys() == (None, None)
        answered = config(server, "cold")
        assert answered["defaults"]["s3.endpoint"] == "http://127.0.0.1:9"
        assert "AKIA" not in json.dumps(answered)
    row = list_warehouses(opened.read())[0]
    assert (row.secret, row.secret_key_id) == (None, None)


WRONG: list[tuple[str, str, dict[str, object], type[FrazilError]]] = [
    ("cold", "s3://other/place", {}, WarehouseError),  # the name is taken
    ("default", "s3://other/place", {}, WarehouseError),  # by the settings
    ("namespaces", "s3://other/place", {}, ConfigError),
    ("a/b", "s3://other/place", {}, ConfigError),
    ("", "s3://other/place", {}, ConfigError),
    ("x", "s3://lake/cold", {}, ConfigError),
    ("x", "s3a://lake/cold/inside", {}, ConfigError),
    ("x", "s3://lake", {}, ConfigError),
    ("x", "FOLDER/default/inside", {}, ConfigError),
    ("x", "FOLDER/link", {}, ConfigError),  # leads into the settings' warehouse
    ("x", "file:FOLDER", {}, ConfigError),
    ("x", "s3://lake/a/../cold", {}, MalformedLocation),
    ("x", "file:///a/%2e%2e/b", {}, MalformedLocation),
    ("x", "gs://lake/x", {}, MalformedLocation),
    ("x", "FOLDER/other", {"endpoint": "http://store"}, WarehouseError),  # a folder has no endpoint
    ("x", "s3://lake/x", {"endpoint": "http://key:secret@store"}, WarehouseError),
    ("x", "s3://lake/x", {"endpoint": "store:8333"}, WarehouseError),
    ("x", "s3://lake/x", {"region": "evil.example.org/"}, WarehouseError),
    ("x", "s3://lake/x", {"session_seconds": 1}, WarehouseError),
    ("x", "s3://lake/x", {"delegation": ["vended-credentials"]}, WarehouseError),  # without a role
    ("x", "s3://lake/x", {"access_key_id": "AKIA1"}, WarehouseError),  # without its secret
]


def test_what_cannot_be_a_warehouse_is_refused(opened: Database, tmp_path: Path) -> None:
    with_keys(opened)
    (tmp_path / "default").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "default")
    own = operator(settings={"default": str(tmp_path / "default")})
    for name, root, fields, error in WRONG:
        with pytest.raises(error):
            create_warehouse(opened, name, root.replace("FOLDER", str(tmp_path)), fields, None, own)
    assert [row.name for row in list_warehouses(opened.read())] == ["cold"]


def test_a_warehouse_is_not_created_around_a_table_of_another(opened: Database, database: str, tmp_path: Path) -> None:
    with running_catalog(tmp_path, database=database, allow_locations=[str(tmp_path / "allowed")]) as server:
        client = Client(server.uri)
        client.create(location=f"file://{tmp_path}/allowed/t")
        client.session.close()
    for root in (tmp_path / "allowed", tmp_path / "allowed" / "t" / "inside"):
        with raises(WarehouseError, path=f"file://{root}"):
            create_warehouse(opened, "cold", str(root), {}, None, operator())
    create_warehouse(opened, "cold", str(tmp_path / "allowed2"), {}, None, operator())


def test_a_warehouse_is_not_created_around_or_in_a_namespace_of_another(
    opened: Database, database: str, tmp_path: Path
) -> None:
    allowed = tmp_path / "allowed"
    with running_catalog(tmp_path, database=database, allow_locations=[str(allowed)]) as server:
        client = Client(server.uri)
        for name, location in (("ns", allowed / "ns"), ("moved", allowed / "first")):
            body = {"namespace": [name], "properties": {"location": f"file://{location}"}}
            assert client.post("/namespaces", body).status == 200
        change = {"updates": {"location": f"file://{allowed}/second"}}
        assert client.post("/namespaces/moved/properties", change).status == 200
        client.session.close()
    for folder in ("", "ns", "ns/inside", "second", "second/inside"):
        with raises(WarehouseError, path=f"file://{allowed / folder}"):
            create_warehouse(opened, "cold", str(allowed / folder), {}, None, operator())
    (tmp_path / "link").symlink_to(allowed)
    with raises(WarehouseError, name="cold"):
        create_warehouse(opened, "cold", str(tmp_path / "link" / "ns"), {}, None, operator())
    for name, folder in (("ns2", "ns2"), ("first", "first"), ("third", "third")):
        create_warehouse(opened, name, str(allowed / folder), {}, None, operator())
    create_warehouse(opened, "over", str(allowed / "ns"), {}, None, operator(allow_overlap=True))


def test_of_two_overlapping_warehouses_that_are_created_at_once_one_is(opened: Database) -> None:
    def create(root: str) -> str:
        try:
            return create_warehouse(opened, root.replace("/", "-").strip("s3:-"), root, {}, None, operator()).name
        except ConfigError:
            return "refused"

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(create, ["s3://lake/a", "s3://lake/a/b", "s3://lake/a/c", "s3://lake"]))
    names = {row.name for row in list_warehouses(opened.read())}
    assert names == {result for result in results if result != "refused"}
    assert names in ({"lake"}, {"lake-a"}, {"lake-a-b", "lake-a-c"}, {"lake-a-b"}, {"lake-a-c"})


def test_a_server_does_not_start_with_a_name_twice_or_a_wrong_key(
    opened: Database, database: str, tmp_path: Path
) -> None:
    with_keys(opened)
    with raises(ConfigError, problem="missing", name="cold"):
        open_context(options(database, tmp_path))
    with raises(ConfigError, name="cold", got=SecretKeys([OTHER_KEY]).id):
        open_context(options(database, tmp_path, secret_key=OTHER_KEY.hex()))
    twice = ServerOptions(database, {"cold": str(tmp_path / "cold")}, secret_key=KEY.hex())
    with raises(ConfigError, option="server.warehouses", name="cold"):
        open_context(twice)
    around = ServerOptions(database, {"default": "s3://lake/"}, secret_key=KEY.hex())
    with raises(ConfigError, name="cold"):
        open_context(around)
    alone = open_context(ServerOptions(database, {}, secret_key=KEY.hex()))
    assert alone.warehouses.default.name == "cold"
    alone.close()
    assert KEY.hex() not in repr(twice)


def test_one_key_encrypts_all_secrets_and_can_be_changed(opened: Database, database: str, tmp_path: Path) -> None:
    with_keys(opened)
    with raises(ConfigError, option="server.secret_key_file", name="cold"):
        create_warehouse(opened, "hot", "s3://lake/hot", KEYS, SECRET, operator(keys=SecretKeys([OTHER_KEY])))
    with raises(ConfigError, problem="missing"):
        create_warehouse(opened, "hot", "s3://lake/hot", KEYS, SECRET, operator(keys=None))
    with raises(ConfigError, name="cold", got=SecretKeys([OTHER_KEY]).id):
        rekey_warehouses(opened, operator(keys=SecretKeys([OTHER_KEY])))
    both = SecretKeys([OTHER_KEY, KEY])
    assert rekey_warehouses(opened, operator(keys=both)) == ["cold"]
    assert rekey_warehouses(opened, operator(keys=both)) == []
    server = open_context(options(database, tmp_path, secret_key=OTHER_KEY.hex()))
    assert server.warehouses.named("cold").access.secret_access_key == SECRET
    server.close()
    with raises(ConfigError, name="cold"):
        open_context(options(database, tmp_path, secret_key=KEY.hex()))


def test_a_secret_that_is_moved_to_another_row_does_not_work(opened: Database, database: str, tmp_path: Path) -> None:
    with_keys(opened)
    create_warehouse(opened, "hot", "s3://lake/hot", KEYS, "other", operator())
    move = "UPDATE warehouses SET secret = (SELECT secret FROM warehouses WHERE name = 'hot') WHERE name = 'cold'"
    opened.write(lambda sql: sql.run(move))
    with raises(ConfigError, name="cold", problem="damaged"):
        open_context(options(database, tmp_path, secret_key=KEY.hex()))


def test_a_running_server_keeps_what_it_knows_of_a_warehouse_that_it_cannot_open(
    opened: Database, database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_keys(opened)
    with running_catalog(tmp_path, database=database, secret_key=KEY.hex()) as server:
        rekey_warehouses(opened, operator(keys=SecretKeys([OTHER_KEY, KEY])))
        create_warehouse(opened, "inside", str(tmp_path / "warehouse" / "inside"), {}, None, operator())
        create_warehouse(opened, "new", str(tmp_path / "new"), {}, None, operator())
        assert config(server, "new") != 404  # all rows were read
        assert server.app.ctx.warehouses.named("cold").access.secret_access_key == SECRET
        assert config(server, "inside") == 404  # it lies in a warehouse of the settings
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any("cold" in message and "encrypted with the key" in message for message in messages)
    assert any("inside" in message and "lies in" in message for message in messages)
    assert SECRET not in caplog.text


def test_dropping_a_warehouse_ends_its_grants_and_is_recorded(opened: Database) -> None:
    with_keys(opened)
    create_role(opened, "analyst", now_ms=now_ms())
    for warehouse in ("cold", "other"):
        change_grant(opened, "read", Target("warehouse", warehouse), "analyst", adding=True, by="t", now_ms=now_ms())
    before = access.version(opened.read())
    drop_warehouse(opened, "cold", operator())
    assert opened.read().rows("SELECT warehouse FROM grants WHERE grantee = 'analyst'") == [("other",)]
    assert access.version(opened.read()) > before
    with raises(WarehouseError, name="cold"):
        drop_warehouse(opened, "cold", operator())
    recorded = [record.operation for record in newest_records(opened.read(), limit=10)]
    assert [operation for operation in recorded if "Warehouse" in operation] == ["createWarehouse", "dropWarehouse"]


class _Asked(BaseHTTPRequestHandler):
    """Answers every object, and notes who asks."""

    def do_GET(self) -> None:
        heads = (self.path, self.headers["authorization"].split("/")[0], self.headers["x-amz-security-token"])
        self.server.asked.append(heads)  # type: ignore[attr-defined]
        self.send_response(200)
        for name, value in (("content-length", "1"), ("last-modified", "Wed, 21 Oct 2026 07:28:00 GMT")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, *_: object) -> None: ...


def test_keys_of_a_warehouse_are_not_mixed_with_those_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "other", "AWS_SECRET_ACCESS_KEY": "other", "AWS_SESSION_TOKEN": "other"}
    for name, value in {**environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    with HTTPServer(("127.0.0.1", 0), _Asked) as store:
        store.asked = []  # type: ignore[attr-defined]
        thread = Thread(target=store.serve_forever)
        thread.start()
        endpoint = f"http://127.0.0.1:{store.server_port}"
        files = S3Files(S3Access("eu", endpoint, path_style=True, access_key_id="AKIA1", secret_access_key=SECRET))
        assert files.read(Place("s3", "lake", "a/b")) == b"x"
        store.shutdown()
        thread.join()
        assert store.asked == [("/lake/a/b", "AWS4-HMAC-SHA256 Credential=AKIA1", None)]  # type: ignore[attr-defined]


def test_the_database_holds_no_secret_in_clear(database: str, tmp_path: Path, opened: Database) -> None:
    with_keys(opened)
    update_warehouse(opened, "cold", {"region": "eu"}, f"{SECRET}-2", operator())
    row = store.list_all(opened.read())[0]
    everything = [str(row), json.dumps(describe_warehouse(row)), str(newest_records(opened.read(), limit=10))]
    everything += [str(opened.read().rows("SELECT * FROM warehouses"))]
    opened.close()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert database.startswith("postgresql") or any(b"AKIA1" in content for content in files)  # it is the right file
    assert not any(SECRET in text for text in everything)
    assert not any(SECRET.encode() in content for content in files)
