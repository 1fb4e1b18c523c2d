"""A full run with every kind of secret, all outputs of which are searched for each of them."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pytest
import requests

import frazil.sinks
from frazil import logs
from frazil.catalog.routes import OWN_ROUTES
from frazil.catalog.routes import ROUTES as REST_ROUTES
from frazil.catalog.server import ServerOptions
from frazil.cli.main import main
from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.console import ROUTES
from frazil.engine_config.connection import S3, Connection
from frazil.processes import wait_until
from frazil.services import ports
from frazil.services.object_store import ROLE_ARN, ObjectStore
from tests.kit.catalog_databases import SCHEMA, fresh_database
from tests.kit.database_proxy import CuttingProxy, cutting_proxy
from tests.kit.issuer import LocalIssuer, local_issuer

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "data": ["a", "b", "c"]})
VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
SHORTEST = 16  # characters of a secret: a shorter one would be found by chance


@dataclass
class Run:
    """The secrets of a run, and everything that it has put out, by where."""

    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    outputs: dict[str, str] = field(default_factory=dict, repr=False)

    def keep_secret(self, name: str, value: str) -> str:
        assert len(value) >= SHORTEST, name
        self.secrets[name] = value
        return value

    def keep_key(self, name: str, key: str) -> str:
        """An API key: also the secret in it, and the header of HTTP's basic authentication."""
        _, key_id, secret = key.split("_")
        self.keep_secret(f"{name}, basic", base64.b64encode(f"{key_id}:{secret}".encode()).decode())
        self.keep_secret(f"{name}, secret", secret)
        return key

    def keep_jwt(self, name: str, token: str) -> str:
        self.keep_secret(f"{name}, claims", token.split(".")[1])
        self.keep_secret(f"{name}, signature", token.split(".")[2])
        return token

    def note(self, where: str, text: str) -> None:
        self.outputs[f"{len(self.outputs)} {where}"] = text

    def note_answer(self, reply: requests.Response) -> requests.Response:
        """An answer without credentials for its caller."""
        self.note(f"{reply.request.method} {reply.status_code}", f"{dict(reply.headers)}\n{reply.text}")
        return reply

    def note_error(self, error: BaseException | None) -> None:
        """An exception, its attributes and those that it came from."""
        while error is not None:
            lines = traceback.format_exception(error)
            self.note(f"error {type(error).__name__}", f"{error!r}\n{vars(error)!r}\n{''.join(lines)}")
            error = error.__cause__ or error.__context__

    def leaks(self) -> list[tuple[str, str]]:
        """Where which secret is, in any of its forms."""
        forms = [(name, form) for name, value in self.secrets.items() for form in forms_of(value)]
        return sorted({(where, name) for where, text in self.outputs.items() for name, form in forms if form in text})


def forms_of(secret: str) -> set[str]:
    """The secret as it may be written: as it is, percent-encoded, in base64."""
    data = secret.encode()
    return {
        secret,
        quote(secret, safe=""),
        base64.b64encode(data).decode().rstrip("="),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
    }


# --- what runs -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lake:
    """A server with authentication, an issuer, a PostgreSQL with a password, and warehouses that vend and sign."""

    run: Run
    uri: str
    folder: Path
    log: Path
    store: ObjectStore = field(repr=False)
    issuer: LocalIssuer
    proxy: CuttingProxy  # in front of the database
    keys: dict[str, str] = field(repr=False)

    def ask(self, method: str, path: str, token: str | None = None, **more: Any) -> requests.Response:
        headers = {**more.pop("headers", {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        return requests.request(method, self.uri + path, headers=headers, timeout=60, **more)


@pytest.fixture
def lake(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Lake]:
    run = Run()
    with ExitStack() as stack:
        store = stack.enter_context(object_store(tmp_path / ".frazil"))
        issuer = stack.enter_context(local_issuer())
        database = urlsplit(stack.enter_context(fresh_database("postgresql", tmp_path, postgres)))
        proxy = stack.enter_context(cutting_proxy(str(database.hostname), int(database.port or 0)))
        monkeypatch.chdir(tmp_path)
        variables = {
            "AWS_ENDPOINT_URL": store.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": store.settings.stack.access_key_id,
            "AWS_SECRET_ACCESS_KEY": store.settings.stack.secret_access_key.get_secret_value(),
            "FRAZIL_SERVER__DATABASE": database._replace(
                netloc=f"{database.username}:{database.password}@127.0.0.1:{proxy.port}"
            ).geturl(),
            "FRAZIL_SERVER__PEPPER_FILE": str(tmp_path / "pepper"),
            "FRAZIL_SERVER__SECRET_KEY_FILE": str(tmp_path / "warehouses.key"),
            "PROXY_KEY": run.keep_secret("header of a proxy", "proxy-" + secrets.token_hex(16)),
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "frazil.toml").write_text(SETTINGS.format(issuer=issuer.uri, role=ROLE_ARN))
        keys = {name: make_key(run, capsys, name) for name in ("root", "etl")}
        keep_secrets(run, store, str(database.password), tmp_path / "pepper")
        create_warehouses(run, capsys, monkeypatch, store)
        with serving(tmp_path, tmp_path / "server.log") as uri:
            monkeypatch.setenv("FRAZIL_CATALOG__URI", uri)
            monkeypatch.setenv("FRAZIL_CATALOG__TOKEN", keys["etl"])
            yield Lake(run, uri, tmp_path, tmp_path / "server.log", store, issuer, proxy, keys)


SETTINGS = """\
[server]
authentication = "keys"

[catalog.properties]
"header.X-Proxy-Key" = "${{ENV:PROXY_KEY}}"

[server.warehouses]
default = "s3://lakehouse/lake"
broken = "s3://lakehouse/broken"

[server.storage.default]
role_arn = "{role}"

[server.storage.broken]
role_arn = "arn:aws:iam::role/missing"

[server.oidc.corp]
issuer = "{issuer}"
audience = ["lake"]
roles = {{ staff = "analyst" }}
"""


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    flags = {"stack.folder": str(folder), "stack.ports.object_store": str(ports.free_port())}
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=folder.parent))
    service.start()
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[str]:
    """`frazil serve` on two workers, in processes of their own."""
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0", "--log-level", "debug", "--workers", "2"]
    with log.open("w") as file, subprocess.Popen(command, cwd=folder, stdout=file, stderr=file) as server:
        try:
            assert wait_until(lambda: "catalog on http://" in log.read_text() or server.poll() is not None, 60)
            yield re.findall(r"catalog on (http://\S+)", log.read_text())[0]
        finally:
            server.terminate()


def command(run: Run, capsys: pytest.CaptureFixture[str], *words: str, prints_key: bool = False) -> str:
    """Runs a command; notes what it prints, but for a new key, which is meant to be printed."""
    with pytest.raises(SystemExit):
        main(["-vv", *words])
    printed = capsys.readouterr()
    run.note(f"stderr of {' '.join(words)}", printed.err)
    if not prints_key:
        run.note(f"stdout of {' '.join(words)}", printed.out)
    return printed.out


def make_key(run: Run, capsys: pytest.CaptureFixture[str], name: str) -> str:
    roles = ("--role", "admin") if name == "root" else ()
    words = ("token", "create", name, *roles, "--output", "json")
    key: str = json.loads(command(run, capsys, *words, prints_key=True))["token"]
    return run.keep_key(name, key)


def keep_secrets(run: Run, store: ObjectStore, password: str, pepper: Path) -> None:
    run.keep_secret("database password", password)
    run.keep_secret("S3 secret key", store.settings.stack.secret_access_key.get_secret_value())
    run.keep_secret("pepper", pepper.read_text().strip())
    run.keep_secret("signing key of STS", json.loads((store.folder / "iam.json").read_text())["sts"]["signingKey"])
    for name, value in store.launch().secrets.items():
        run.keep_secret(name, value)


def create_warehouses(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: ObjectStore
) -> None:
    """Two in the database: one that signs, and one whose keys the store does not know."""
    command(run, capsys, "warehouse", "new-key", "warehouses.key")
    run.keep_secret("key of warehouses", Path("warehouses.key").read_text().strip())
    wrong = run.keep_secret("wrong S3 secret key", "wrong-" + secrets.token_hex(16))
    keys = {"signing": (store.settings.stack.access_key_id, run.secrets["S3 secret key"]), "wrong": ("unknown", wrong)}
    for name, (key_id, secret) in keys.items():
        monkeypatch.setenv("WAREHOUSE_SECRET", secret)
        place = (f"s3://lakehouse/{name}", "--endpoint", store.endpoint, "--delegation", "remote-signing")
        options = ("--access-key-id", key_id, "--secret-from-env", "WAREHOUSE_SECRET")
        command(run, capsys, "warehouse", "create", name, *place, *options)
    monkeypatch.delenv("WAREHOUSE_SECRET")


# --- what is done ----------------------------------------------------------------------------------------------------


def log_in(lake: Lake) -> list[str]:
    """An access token, one of the issuer and one that has expired."""
    key_id, secret = lake.keys["etl"].split("_")[1:]
    form = {"grant_type": "client_credentials", "client_id": key_id, "client_secret": secret}
    access = lake.ask("POST", "/oauth/token", data=form).json()["access_token"]
    expired = lake.issuer.sign(exp=int(time.time()) - 600)
    tokens = {"access token": access, "token of the issuer": lake.issuer.sign(), "expired token": expired}
    return [lake.run.keep_jwt(name, token) for name, token in tokens.items()]


def write_rows(lake: Lake) -> None:
    """A namespace and a table of the principal `etl`, filled by a sink with its key and vended credentials."""
    lake.run.note_answer(lake.ask("POST", "/v1/default/namespaces", lake.keys["root"], json={"namespace": ["ns"]}))
    shown = io.StringIO()
    undo = logs.log_to_stderr(2, as_json=False, stream=shown)
    try:
        catalog = FrazilCatalog("lake", uri=lake.uri, token=lake.keys["etl"])
        catalog.create_table("ns.t", ROWS.schema)
        with frazil.sinks.open("ns.t", name="s", catalog=catalog) as sink:
            sink.write(ROWS, position=3)
        lake.run.note("sink", repr(sink) + repr(catalog) + repr(catalog.load_table("ns.t")))
    finally:
        undo()
    lake.run.note("log of the sink", shown.getvalue())
    loaded = lake.ask("GET", "/v1/default/namespaces/ns/tables/t", lake.keys["etl"], headers=VENDED).json()
    for name in ("s3.secret-access-key", "s3.session-token"):
        lake.run.keep_secret(f"vended {name}", loaded["config"][name])


def sign_requests(lake: Lake) -> None:
    """A signed request, one that is refused, and a warehouse whose keys are wrong."""
    root, body = lake.keys["root"], {"name": "t", "schema": SCHEMA}
    for name in ("signing", "wrong"):
        lake.ask("POST", f"/v1/{name}/namespaces", root, json={"namespace": ["ns"]}).raise_for_status()
        created = lake.ask("POST", f"/v1/{name}/namespaces/ns/tables", root, json=body)
        lake.run.note_answer(created)
        for key in ("signing/ns/t/a", "lake/ns/t/a"):
            described = {"method": "GET", "region": "us-east-1", "uri": f"{lake.store.endpoint}/lakehouse/{key}"}
            path = f"/v1/{name}/namespaces/ns/tables/t/sign"
            signed = lake.ask("POST", path, root, json=described | {"headers": {}})
            if signed.ok:
                signature = signed.json()["headers"]["Authorization"][0].partition("Signature=")[2]
                lake.run.keep_secret("signature", signature)
            else:
                lake.run.note_answer(signed)
    assert "signature" in lake.run.secrets


def send_nonsense(lake: Lake, tokens: list[str]) -> None:
    """Requests that fail, with tokens wherever a client may put one by mistake."""
    root, paths = lake.keys["root"], ("/v1/config", "/v1/default/namespaces/ns/tables/t")
    for token in (lake.keys["etl"], root, *tokens):
        for header in (token, f"Basic {token}", f"Bearer {token}x", f"Bearer {token[:-4]}", f"bearer  {token}"):
            for path in paths:
                lake.run.note_answer(lake.ask("GET", path, headers={"Authorization": header}))
        misplaced = [
            ("GET", f"/v1/config?token={token}&access_token={token}&warehouse={token}", {}),
            ("GET", f"/v1/{token}/namespaces", {}),
            ("GET", f"/v1/default/namespaces/{token}", {}),
            ("GET", f"/v1/default/namespaces/ns/tables/{quote(token).replace('_', '%5F')}", {}),
            ("DELETE", f"/v1/default/namespaces/ns/tables/{token}", {}),
            ("GET", f"/{token}", {}),
            ("GET", f"/v1/default/namespaces?pageToken={token}", {}),
            ("GET", f"/v1/default/namespaces/ns/tables/t/plan/{token}", {}),
            ("GET", "/v1/default/namespaces/missing", {"headers": {"X-Request-ID": token}}),
            ("GET", "/v1/default/namespaces/missing", {"headers": {"X-Request-ID": f"id {token}"}}),
            ("GET", "/v1/config", {"headers": {"Host": f"{token}.example.org"[:250]}}),
            ("GET", "/v1/config", {"headers": {"Origin": f"http://{token}"}}),
            ("POST", "/v1/default/namespaces", {"headers": {"Idempotency-Key": token}, "json": {"namespace": ["x"]}}),
            ("POST", "/v1/default/namespaces", {"json": {"namespace": [token, ""]}}),
            ("POST", "/v1/default/namespaces", {"json": {"namespace": token}}),
            ("POST", "/v1/default/namespaces", {"data": f'{{"namespace": ["{token}"', "headers": JSON}),
            ("POST", "/v1/default/namespaces", {"data": f"token={token}"}),
            ("POST", "/v1/default/namespaces", {"json": {"namespace": ["x"], "properties": {"token": [token]}}}),
            ("POST", "/v1/default/namespaces/ns/tables", {"json": {"name": "x", "schema": {"type": token}}}),
            ("POST", "/v1/default/namespaces/ns/tables/t", {"json": {"updates": [{"action": token}]}}),
            ("POST", "/v1/default/namespaces/ns/tables/t/plan", {"json": {"filter": token}}),
            ("POST", "/v1/signing/namespaces/ns/tables/t/sign", {"json": description(lake, token)}),
            ("POST", "/v1/signing/namespaces/ns/tables/t/sign", {"json": {"method": token, "headers": token}}),
            ("POST", f"/oauth/token?client_secret={token}", {"data": {"grant_type": "client_credentials"}}),
            ("POST", "/oauth/token", {"data": {"grant_type": token}}),
            ("POST", "/oauth/token", {"data": {"grant_type": EXCHANGE, "subject_token": f"{token}x"}}),
            ("POST", "/oauth/token", {"data": {"grant_type": "client_credentials", "scope": token}}),
        ]
        for method, path, more in misplaced:
            known = None if path.startswith("/oauth") else root
            lake.run.note_answer(lake.ask(method, path, known, **more))
    send_settings(lake)


JSON = {"Content-Type": "application/json"}


def description(lake: Lake, token: str) -> dict[str, Any]:
    """A request to be signed, with a token wherever it does not belong."""
    uri = f"{lake.store.endpoint}/lakehouse/signing/ns/t/{token}?x={token}"
    headers = {"Authorization": [f"Bearer {token}"], "x-amz-security-token": [token]}
    return {"method": "GET", "region": "us-east-1", "uri": uri, "headers": headers, "properties": {"token": token}}


# of the page of a table
PARTS = (
    *("/snapshots", "/rows", "/files", "/partitions", "/compaction", "/metadata", "/indexes", "/runs", "/quarantine"),
    "/upkeep",
)
PAGES = ("tables", "connect", "pipelines", "pipelines/states", "plan", "upkeep")


def run_jobs(lake: Lake, tokens: list[str]) -> None:
    """SQL and upkeep in processes of the server, which get the token of the caller; requests with tokens in them."""
    path, root = "/console/api/default/query", lake.keys["root"]
    for part, sql in (("/prepare", ""), ("", "SELECT * FROM ns.t"), ("/csv", "SELECT * FROM ns.t")):
        answer = lake.run.note_answer(lake.ask("POST", f"{path}{part}", root, json={"sql": sql}))
        assert answer.status_code == 200, part
    upkeep, table = {"steps": ["expire"]}, "/console/api/default/namespaces/ns/tables/t/upkeep"
    for part in ("/plan", ""):
        assert lake.run.note_answer(lake.ask("POST", f"{table}{part}", root, json=upkeep)).status_code == 200, part
    for token in (lake.keys["etl"], *tokens):
        lake.run.note_answer(lake.ask("POST", table, root, json={"steps": [token]}))
        for sql in (f'SELECT * FROM ns."{token}"', f"SELECT error('{token}')", f"SELECT '{token}", f"SELECT {token}"):
            lake.run.note_answer(lake.ask("POST", path, root, json={"sql": sql, "limit": token}))
            lake.run.note_answer(lake.ask("POST", path, root, json={"sql": sql}))
            lake.run.note_answer(lake.ask("POST", path, f"{token}x", json={"sql": sql}))
    note_processes(lake.run)


# notes the arguments of the process that it runs in
PROJECT = """\
from pathlib import Path
from frazil import Table, column, model
Path("arguments.txt").write_bytes(Path("/proc/self/cmdline").read_bytes())
m = model("ns.m", "SELECT id FROM ns.t")
d = Table("ns.declared", column("id", "long"))
"""


def open_project(lake: Lake) -> None:
    """The pages of a project: its code runs in a process that gets the token of the caller."""
    (lake.folder / "lakehouse.py").write_text(PROJECT)
    page = "/console/api/default/pipelines"
    for path in (f"{page}?declared=wait", f"{page}/states"):
        answer = lake.run.note_answer(lake.ask("GET", path, lake.keys["root"]))
    assert answer.json()["states"].keys() == {"ns.m"}
    assert "answer" in (lake.folder / "arguments.txt").read_text()


def open_console(lake: Lake, tokens: list[str]) -> None:
    """Every page's answer, and requests for pages with tokens where they do not belong."""
    root, api = lake.keys["root"], "/console/api"
    tables = [f"{api}/{name}/namespaces/ns/tables/t" for name in ("default", "signing")]
    lists = [f"{api}/{name}/{page}" for name in ("default", "signing", "broken") for page in PAGES]
    parts = [f"{table}{part}" for table in tables for part in ("", *PARTS)]
    assert lake.run.note_answer(lake.ask("HEAD", "/", root)).status_code == 200
    for path in ("/", "/console/static/app.js", f"{api}/session", f"{api}/audit", *lists, *parts):
        assert lake.run.note_answer(lake.ask("GET", path, root)).status_code == 200, path
    for token in (lake.keys["etl"], *tokens):
        for path in (
            *(f"/?token={token}", f"/console/static/{token}", f"/console/{token}", f"{api}/{token}"),
            *(f"{api}/session?token={token}", f"{api}/{token}/tables", f"{api}/{token}/connect"),
            *(f"{api}/default/tables?after={token}&access_token={token}", f"{api}/default/connect?key={token}"),
            *(f"{api}/default/namespaces/{token}/tables/{token}{part}" for part in ("", "/rows")),
            *(f"{tables[0]}{part}?snapshot={token}&limit={token}" for part in PARTS),
            *(f"{api}/audit?{name}={token}" for name in ("actor", "object", "decision", "before")),
        ):
            lake.run.note_answer(lake.ask("GET", path, root))
        misplaced = {"Sec-Fetch-Site": "cross-site", "Origin": lake.uri, "Cookie": f"token={token}", "Referer": token}
        for path in (f"{api}/session", f"{tables[0]}/rows"):
            lake.run.note_answer(lake.ask("GET", path, root, headers=misplaced))
            lake.run.note_answer(lake.ask("GET", path, f"{token}x"))


def keep_new_key(lake: Lake, name: str, reply: requests.Response) -> str:
    """The id of a key that was just made; its text, which is for its maker, is in nothing else from then on."""
    lake.run.note(f"headers of {name}", str(reply.headers))
    key: dict[str, str] = reply.json()
    lake.run.keep_key(name, key.pop("token"))
    lake.run.note(f"{name}, the rest", str(key))
    return key["id"]


def ask_every_route(lake: Lake, tokens: list[str]) -> None:
    """Each route of the REST API about objects with the name of a token, each of the console about a table that there
    is; with tokens in the body.
    """
    for token in (lake.keys["etl"], tokens[0]):
        wrong = dict.fromkeys(("name", "identifier", "source", "updates", "grant", "metadata-location", "sql"), token)
        for route in (*REST_ROUTES, *OWN_ROUTES, *ROUTES):
            namespace, table = ("ns", "t") if route in ROUTES else ("missing", token)
            path = route.template.replace("{prefix}", "default").replace("{namespace}", namespace)
            path = re.sub(r"\{[a-z-]+\}", token, path.replace("{table}", table))
            body = wrong if route.method == "POST" else None
            lake.run.note_answer(lake.ask(route.method, path, lake.keys["root"], json=body))


def change_access(lake: Lake, tokens: list[str]) -> None:
    """The access page: keys, roles and members, and the same with tokens where they do not belong."""
    root, api = lake.keys["root"], "/console/api/access"
    once = {"Idempotency-Key": str(uuid.uuid4())}

    def send(path: str, body: dict[str, Any], **headers: str) -> requests.Response:
        return lake.ask("POST", f"{api}{path}", root, json=body, headers=headers)

    key_id = keep_new_key(lake, "key of the console", send("/tokens", {"principal": "job"}, **once))
    rotated = send("/tokens/rotate", {"id": key_id, "keep_seconds": 60}, **once)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("/tokens/revoke", {"id": keep_new_key(lake, "key that the console has rotated", rotated)}),
        ("/roles", {"name": "made"}),
        ("/members", {"role": "made", "principal": "job", "member": True}),
        ("/roles/drop", {"name": "made"}),
    ]
    for path, body in changes:
        assert lake.run.note_answer(send(path, body)).status_code == 200, path
    for query in ("", "/explain?privilege=read", "/explain?warehouse=default&name=ns.t"):
        assert lake.run.note_answer(lake.ask("GET", f"{api}{query}", root)).status_code == 200, query
    for token in (lake.keys["etl"], *tokens):
        for path, body in (
            *(("/tokens", {"principal": token}), ("/tokens", {"principal": "x", "roles": [token], "scopes": [token]})),
            *(("/tokens/rotate", {"id": token, "keep_seconds": token}), ("/tokens/revoke", {"id": token})),
            *(("/roles", {"name": token}), ("/roles/drop", {"name": token})),
            ("/members", {"role": token, "principal": token, "member": True}),
        ):
            lake.run.note_answer(send(path, body))
            lake.run.note_answer(lake.ask("POST", f"{api}{path}", f"{token}x", json=body))
        for name in ("warehouse", "name", "principal", "privilege"):
            lake.run.note_answer(lake.ask("GET", f"{api}/explain?{name}={token}", root))


def change_tables(lake: Lake, tokens: list[str]) -> None:
    """What the pages of a table and of the plan change, in processes of the server; and with tokens in the bodies."""
    root, table = lake.keys["root"], "/console/api/default/namespaces/ns/tables/t"
    head, *_, first = lake.ask("GET", f"{table}/snapshots", root).json()["id"]
    tag, back = {"kind": "tag", "name": "v1", "snapshot": head}, {"ref": "main", "head": head, "snapshot": first}
    replay, dropped = {"head": head, "reason": None}, {"kind": "tag", "name": "v1", "snapshot": head}
    digest = lake.run.note_answer(lake.ask("GET", "/console/api/default/plan", root)).json()["digest"]
    changes: list[tuple[str, dict[str, Any]]] = [
        *((f"{table}/refs", tag), (f"{table}/refs/drop/preview", dropped), (f"{table}/refs/drop", dropped)),
        *((f"{table}/rollback/preview", back), (f"{table}/rollback", back | {"with_progress": True})),
        *((f"{table}/replay/preview", replay), (f"{table}/replay", replay)),
        ("/console/api/default/plan", {"digest": digest}),
    ]
    for path, body in changes:
        status = lake.run.note_answer(lake.ask("POST", path, root, json=body)).status_code
        assert status == 200 or "replay" in path, (path, status)  # there is no quarantine
    for token in (lake.keys["etl"], *tokens):
        wrong = dict.fromkeys(("kind", "name", "ref", "head", "snapshot", "reason", "digest"), token)
        for path, body in changes:
            lake.run.note_answer(lake.ask("POST", path, root, json=wrong))
            if path != f"{table}/refs":  # a tag may have any name, and its maker sees it
                lake.run.note_answer(lake.ask("POST", path, root, json=body | {"name": token, "ref": token}))
            lake.run.note_answer(lake.ask("POST", path, f"{token}x", json=body))
    note_processes(lake.run)


def send_settings(lake: Lake) -> None:
    """Credentials of the store and of a client in a body that is refused."""
    key_id, secret = lake.keys["etl"].split("_")[1:]
    wrong = {"grant_type": "client_credentials", "client_id": "0" * 16, "client_secret": secret}
    odd = {"grant_type": "password", "client_id": key_id, "client_secret": secret, "password": secret}
    for form in (wrong, odd):
        lake.run.note_answer(lake.ask("POST", "/oauth/token", data=form))
        lake.run.note_answer(lake.ask("POST", "/oauth/token", json=form))
    pair = {"Authorization": f"Basic {base64.b64encode(f'{key_id}:{secret}'.encode()).decode()}"}
    lake.run.note_answer(lake.ask("GET", "/v1/config", headers=pair))
    keys = {"s3.secret-access-key": lake.run.secrets["S3 secret key"], "token": lake.keys["etl"]}
    body = {"name": "x", "schema": SCHEMA, "properties": keys}
    lake.run.note_answer(lake.ask("POST", "/v1/default/namespaces/ns/tables", lake.keys["root"], json=body))
    update = {"updates": [{"action": "set-properties", "updates": keys}], "requirements": []}
    lake.run.note_answer(lake.ask("POST", "/v1/default/namespaces/ns/tables/t", lake.keys["root"], json=update))
    host, port = lake.uri.removeprefix("http://").split(":")
    for line in (f"GET /{lake.keys['etl']} HTTP/9.9", f"Authorization: Bearer {lake.keys['etl']}"):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(f"{line}\r\n\r\n".encode())
            lake.run.note("broken request", connection.recv(10_000).decode())


def break_servers(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """A role that cannot be assumed, and a database that goes away."""
    root = lake.keys["root"]
    lake.ask("POST", "/v1/broken/namespaces", root, json={"namespace": ["ns"]}).raise_for_status()
    body = {"name": "t", "schema": SCHEMA}
    reply = lake.ask("POST", "/v1/broken/namespaces/ns/tables", root, json=body, headers=VENDED)
    lake.run.note_answer(reply)
    lake.run.note_answer(lake.ask("GET", "/v1/broken/namespaces/ns/tables/t/credentials", root))
    command(lake.run, capsys, "warehouse", "check", "broken")
    lake.proxy.armed = "before-and-close"
    lake.run.note_answer(lake.ask("POST", "/v1/default/namespaces", root, json={"namespace": ["late"]}))
    for path in ("/readyz", "/v1/config", "/v1/default/namespaces"):
        lake.run.note_answer(lake.ask("GET", path, root))
    for words in (("token", "list"), ("catalog", "migrate"), ("audit-log", "--output", "json")):
        command(lake.run, capsys, *words)


def run_commands(lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that make keys and grants, and those that show settings."""
    run, key_id = lake.run, lake.keys["etl"].split("_")[1]
    words = ("token", "rotate", key_id, "--output", "json")
    run.keep_key("rotated", json.loads(command(run, capsys, *words, prints_key=True))["token"])
    engines = ("trino", "spark", "pyiceberg", "duckdb", "daft", "polars", "env", "flink", "clickhouse")
    for line in (
        *("token list", "token list --output json", "role create analyst", "role list --output json"),
        *("grant read ns.t --to analyst", "why etl ns.t", "who-can read ns.t --output json", "audit-log"),
        *("audit-log --output json", "config", "config --output json", "doctor", "doctor --output json"),
        *("tables", "tables --output json", "query SELECT*FROM+ns.t", "log ns.missing --output json"),
        *("warehouse list", "warehouse show signing --output json", "warehouse check signing", "warehouse check wrong"),
        *("warehouse rekey", "warehouse update wrong --region eu-west-1", "warehouse drop wrong --yes"),
        *(f"connect {engine}" for engine in engines),
    ):
        command(run, capsys, *(word.replace("+", " ").replace("*", " * ") for word in line.split()))
    for uri in (lake.uri, lake.uri.replace("http://", f"http://etl:{lake.keys['etl']}@"), "http://127.0.0.1:1"):
        monkeypatch.setenv("FRAZIL_CATALOG__URI", uri)
        monkeypatch.setenv("FRAZIL_CATALOG__TOKEN", f"{lake.keys['etl']}x")
        for line in ("tables", "tables --output json", "config", "doctor --output json"):
            command(run, capsys, *line.split())


def fail_in_python(lake: Lake) -> None:
    """Errors of the Python API, and the objects that hold settings."""
    broken = {
        "wrong key": {"uri": lake.uri, "token": f"{lake.keys['etl']}x"},
        "wrong credential": {"uri": lake.uri, "credential": f"{lake.keys['root'].split('_')[1]}:{'x' * 43}"},
        "no server": {"uri": "http://127.0.0.1:1", "token": lake.keys["etl"]},
    }
    for name, properties in broken.items():
        try:
            FrazilCatalog("lake", **properties).list_namespaces()
        except Exception as exc:
            lake.run.note_error(exc)
        else:
            pytest.fail(name)
    try:
        load_settings(flags={"catalog.tokens": lake.keys["etl"]}, environ={}, folder=lake.folder)
    except Exception as exc:
        lake.run.note_error(exc)
    settings = load_settings(folder=lake.folder)
    keys = (lake.run.secrets["S3 secret key"], lake.keys["etl"])
    to = Connection("lake", lake.uri, token=lake.keys["etl"], s3=S3(None, "", True, *keys), properties={"a": keys[0]})
    options = ServerOptions(settings.server.database.get_secret_value(), {})
    objects = [settings, settings.model_dump(exclude={"catalog": {"properties"}}), to, options, lake.store.launch()]
    lake.run.note("objects", "\n".join([str(settings), *map(repr, objects)]))


# --- where it is looked for ------------------------------------------------------------------------------------------


PRIVATE = {"pepper", "warehouses.key", "s3.json", "iam.json", "secrets.json"}  # files that are there to hold secrets


def note_files(lake: Lake) -> None:
    """What lies in the folder of the project; files that hold secrets are their owner's alone."""
    for path in lake.folder.rglob("*"):
        if not path.is_file():
            continue
        if path.name in PRIVATE:
            assert path.stat().st_mode & 0o077 == 0, path
        else:
            lake.run.note(str(path.relative_to(lake.folder)), path.read_bytes().decode("latin-1"))


def note_processes(run: Run) -> None:
    """The arguments of all processes, which every user of the machine can see."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            try:
                run.note(f"process {folder.name}", (folder / "cmdline").read_text(errors="replace"))
            except OSError:
                continue  # it has ended


def test_no_secret_is_in_any_output(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command(lake.run, capsys, "grant", "create", "--warehouse", "default", "--to", "user:etl")
    tokens = log_in(lake)
    statuses = [lake.ask("GET", "/v1/config", token).status_code for token in tokens]
    assert statuses == [200, 404, 401]  # the issuer's principal is known, and has no grants
    write_rows(lake)
    sign_requests(lake)
    note_processes(lake.run)
    send_nonsense(lake, tokens)
    run_commands(lake, capsys, monkeypatch)
    fail_in_python(lake)
    lake.run.note_answer(lake.ask("GET", "/metrics", lake.keys["root"]))
    open_console(lake, tokens)
    open_project(lake)
    run_jobs(lake, tokens)
    ask_every_route(lake, tokens)
    change_access(lake, tokens)
    change_tables(lake, tokens)
    break_servers(lake, capsys)
    note_files(lake)
    assert lake.run.leaks() == []
    check_search(lake.run.secrets)
    assert_was_full(lake)


def check_search(secrets: Mapping[str, str]) -> None:
    """Each secret would have been found."""
    matches = Run(dict(secrets), {name: f"... {value} ..." for name, value in secrets.items()}).leaks()
    assert {name for where, name in matches if where == name} == set(secrets)


def assert_was_full(lake: Lake) -> None:
    """The run has come to where secrets are used: each kind of answer, and the log of it."""
    statuses = {where.split()[2] for where in lake.run.outputs if where.split()[1] in ("GET", "POST")}
    assert {"200", "400", "401", "403", "404", "415", "503"} <= statuses
    log = lake.log.read_text()
    operations = {json.loads(line).get("operation") for line in log.splitlines() if line.startswith("{")}
    assert {"createTable", "updateTable", "issueToken", "loadCredentials", "signRequest", "metrics"} <= operations
    assert {route.operation for route in (*REST_ROUTES, *OWN_ROUTES, *ROUTES)} - operations == set()
