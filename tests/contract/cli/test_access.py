"""The commands for keys, roles and grants, and where `frazil serve` refuses to listen."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import requests
from click.testing import CliRunner, Result

from frazil.catalog import ServerOptions, check_exposure, running_catalog
from frazil.cli.main import cli
from frazil.errors import AccessError, ConfigError
from tests.kit.access import bearer_session
from tests.kit.catalog_databases import Client
from tests.kit.raising import raises

UNKNOWN = "frz_0123456789abcdef_" + "x" * 43
TLS = Path(__file__).parents[2] / "data" / "tls"


@pytest.fixture
def database(tmp_path: Path) -> str:
    with running_catalog(tmp_path) as server:
        client = Client(server.uri)
        client.create("t")
        client.session.close()
    return f"sqlite:///{tmp_path / 'catalog.db'}"


def frazil(database: str, *words: str) -> Result:
    settings = ["--set", f"server.pepper_file={database.removeprefix('sqlite:///')}-pepper"]
    return CliRunner().invoke(cli, [*settings, *words, "--database", database])


def ok(database: str, *words: str) -> str:
    done = frazil(database, *words)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_key_is_printed_once_and_listed_without_its_secret(database: str) -> None:
    token = ok(database, "token", "create", "ann", "--expires", "90d", "--scope", "read").strip()
    key_id, secret = token.split("_")[1:]
    listed = ok(database, "token", "list")
    assert key_id in listed
    assert "ann  valid" in listed
    assert secret not in listed + ok(database, "token", "list", "--output", "json")
    new = ok(database, "token", "rotate", key_id).strip()
    assert new.split("_")[1] != key_id
    assert "revoked" in ok(database, "token", "revoke", key_id)
    states = {line.split()[0]: line.split()[2] for line in ok(database, "token", "list").splitlines()}
    assert states == {key_id: "revoked", new.split("_")[1]: "valid"}
    assert isinstance(frazil(database, "token", "rotate", key_id).exception, AccessError)


def test_the_pepper_is_private_and_a_lost_one_is_not_replaced(database: str) -> None:
    ok(database, "token", "create", "ann")
    pepper = Path(f"{database.removeprefix('sqlite:///')}-pepper")
    assert pepper.stat().st_mode & 0o777 == 0o600
    text = pepper.read_text()
    pepper.unlink()
    assert isinstance(frazil(database, "token", "create", "bob").exception, ConfigError)
    pepper.write_text("ab" * 32)
    assert isinstance(frazil(database, "token", "create", "bob").exception, ConfigError)
    pepper.write_text(text)
    ok(database, "token", "create", "bob")


def test_grants_are_made_explained_and_revoked(database: str) -> None:
    ok(database, "token", "create", "ann")
    ok(database, "role", "create", "analyst")
    ok(database, "role", "add", "analyst", "ann")
    assert "granted to analyst" in ok(database, "grant", "read", "ns.t", "--to", "analyst")
    assert "nothing changed" in ok(database, "grant", "read", "ns.t", "--to", "analyst")
    ok(database, "grant", "create", "ns", "--to", "user:ann")
    ok(database, "grant", "discover", "--server", "--to", "user:ann")
    who = json.loads(ok(database, "who-can", "read", "ns.t", "--output", "json"))
    assert [(entry["principal"], entry["grantee"]) for entry in who["grants"]] == [("ann", "analyst")]
    why = ok(database, "why", "ann", "ns.t")
    assert "read on table default: ns.t through the role analyst" in why
    assert "create on namespace default: ns" in why
    assert "discover on server" in why
    ok(database, "revoke", "read", "ns.t", "--from", "analyst")
    assert "no principal has read on table" in ok(database, "who-can", "read", "ns.t")
    assert ok(database, "role", "list").splitlines() == ["admin: (no members)", "analyst: ann"]
    ok(database, "role", "drop", "analyst")


def test_groups_of_an_issuer_are_named_where_their_role_has_a_privilege(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is in them is in tokens alone; without them, the answer would be that no principal can read the table."""
    monkeypatch.chdir(tmp_path)
    issuer = (
        'issuer = "https://id.example.org"\naudience = ["lake"]\nroles = { "data-team" = "analyst", "ops" = "admin" }'
    )
    (tmp_path / "frazil.toml").write_text(f"[server.oidc.corp]\n{issuer}\n")
    ok(database, "role", "create", "analyst")
    ok(database, "grant", "read", "ns.t", "--to", "analyst")
    who = json.loads(ok(database, "who-can", "read", "ns.t", "--output", "json"))["grants"]
    assert {(entry["principal"], entry["grantee"]) for entry in who} == {
        ("corp/* in the group data-team", "analyst"),
        ("corp/* in the group ops", "admin"),
    }
    assert "corp/* in the group data-team: read on table default: ns.t" in ok(database, "why", "corp/ann", "ns.t")
    assert "has no privilege" in ok(database, "why", "other/ann", "ns.t")


@pytest.mark.parametrize(
    "words",
    [
        ("grant", "read", "ns.t", "--to", "missing"),
        ("grant", "read", "ns.missing", "--to", "admin"),
        ("grant", "read", "ns.t", "--index", "missing", "--to", "admin"),
        ("grant", "read", "ns", "--index", "missing", "--to", "admin"),
        ("grant", "read", "ns.t", "--to", "user:missing"),
        ("grant", "read", "--warehouse", "missing", "--to", "admin"),
        ("grant", "read", "ns.t", "--warehouse", "missing", "--to", "admin"),
        ("grant", "read", "missing", "--namespace", "--to", "admin"),
        ("grant", "read", "ns.t", "--namespace", "--to", "admin", "--output", "json"),
        ("revoke", "read", "--warehouse", "missing", "--from", "admin", "--output", "json"),
        ("revoke", "read", "ns.missing", "--from", "admin"),
        ("revoke", "read", "ns.t", "--from", "missing"),
        ("who-can", "read", "--warehouse", "missing"),
        ("why", "root", "--warehouse", "missing"),
        ("role", "add", "missing", "ann"),
        ("role", "add", "admin", "missing"),
        ("role", "drop", "admin"),
        ("role", "create", "user:x"),
        ("token", "create", "a b"),
        ("token", "create", "ann", "--role", "missing"),
        ("token", "revoke", "0" * 16),
        ("why", "missing", "ns.t"),
    ],
)
def test_what_does_not_exist_is_an_error_and_changes_nothing(database: str, words: tuple[str, ...]) -> None:
    assert isinstance(frazil(database, *words).exception, AccessError)
    assert ok(database, "token", "list") == ""


def test_a_warehouse_is_known_by_the_settings_the_database_or_its_namespaces(database: str, tmp_path: Path) -> None:
    assert "no warehouse" in str(frazil(database, "grant", "read", "--warehouse", "cold", "--to", "admin").exception)
    ok(database, "warehouse", "create", "cold", str(tmp_path / "cold"))
    granted = json.loads(ok(database, "grant", "read", "--warehouse", "cold", "--to", "admin", "--output", "json"))
    assert granted == {"object": "warehouse cold", "privilege": "read", "grantee": "admin", "changed": True}
    served = ("--set", f"server.warehouses.warm={tmp_path / 'warm'}")
    ok(database, *served, "grant", "read", "--warehouse", "warm", "--to", "admin")
    refused = frazil(database, "grant", "write", "--warehouse", "warm", "--to", "admin").exception
    assert isinstance(refused, AccessError)  # it is in no settings any more, and has no namespace
    assert "there are cold, default" in refused.message
    assert "revoked from admin" in ok(database, "revoke", "read", "--warehouse", "warm", "--from", "admin")
    ok(database, "warehouse", "drop", "cold", "--yes")
    assert isinstance(frazil(database, "who-can", "read", "--warehouse", "cold").exception, AccessError)


@pytest.mark.parametrize("option", [("--index", "i"), ("--namespace",)])
def test_an_option_that_is_about_a_name_needs_one(database: str, option: tuple[str, ...]) -> None:
    assert frazil(database, "grant", "read", *option, "--to", "admin").exit_code == 2


def test_the_audit_log_shows_what_operators_did_until_it_is_pruned(database: str) -> None:
    ok(database, "token", "create", "ann", "--role", "admin")
    ok(database, "grant", "read", "ns.t", "--to", "admin")
    shown = json.loads(ok(database, "audit-log", "--output", "json"))["records"]
    assert [(record["operation"], record["decision"]) for record in shown] == [
        ("createToken", "allowed"),
        ("grant", "allowed"),
    ]
    assert "read on table default: ns.t for admin" in ok(database, "audit-log", "--limit", "1", "--since", "1h")
    assert ok(database, "audit-log", "--refused") == ""
    assert ok(database, "audit-log", "--decision", "refused") == ""
    assert ok(database, "audit-log", "--decision", "allowed").count("\n") == 2
    assert frazil(database, "audit-log", "--decision", "allowed", "--refused").exit_code == 2
    assert "for admin" in ok(database, "audit-log", "--operation", "grant", "--object", "table default: ns.t")
    assert ok(database, "audit-log", "--operation", "grant", "--object", "ns.T") == ""
    assert ok(database, "audit-log", "--prune", "1h") == "deleted 0 records\n"
    assert ok(database, "audit-log", "--prune", "0h") == "deleted 2 records\n"


OPTIONS = ServerOptions("sqlite:///x.db", {})
KEYS = ServerOptions("sqlite:///x.db", {}, authentication="keys")
WITH_TLS = ServerOptions("sqlite:///x.db", {}, authentication="keys", certificate="c", certificate_key="k")
PROXIED = ServerOptions("sqlite:///x.db", {}, authentication="keys", behind_proxy=True)
OPEN_PROXIED = ServerOptions("sqlite:///x.db", {}, behind_proxy=True)


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "192.168.0.7", "fe80::1%eth0", "2001:db8::1"])
def test_another_address_needs_authentication_and_tls_or_a_proxy(bound: str) -> None:
    for options in (OPTIONS, OPEN_PROXIED):
        with raises(ConfigError, option="server.authentication"):
            check_exposure(options, bound)
    with raises(ConfigError, option="server.tls_certificate"):
        check_exposure(KEYS, bound)
    check_exposure(WITH_TLS, bound)
    check_exposure(PROXIED, bound)


@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "127.1.2.3"])
def test_the_loopback_interface_is_open(bound: str) -> None:
    check_exposure(OPTIONS, bound)


def test_serve_refuses_to_start_on_another_address(database: str) -> None:
    done = frazil(database, "serve", "--host", "0.0.0.0", "--port", "0")
    assert isinstance(done.exception, ConfigError)
    assert "without authentication" in str(done.exception)


@contextmanager
def serving(folder: Path, *options: str, logged: list[str]) -> Iterator[tuple[str, int]]:
    """`frazil serve` as a process: its address and its id."""
    command = [sys.executable, "-m", "frazil", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1], process.pid
    finally:
        process.terminate()
        logged.append(process.communicate(timeout=60)[1])


def test_a_server_with_keys_and_tls_on_two_workers(database: str, tmp_path: Path) -> None:
    token = ok(database, "token", "create", "ann", "--role", "admin").strip()
    files = ("--tls-certificate", f"{TLS / 'certificate.pem'}", "--tls-key", f"{TLS / 'key.pem'}")
    keys = ("--authentication", "keys", "--database", database, "--workers", "2")
    logged: list[str] = []
    options = (*keys, *files, "--warehouse", f"{tmp_path / 'warehouse'}", "--log-level", "debug")
    with serving(tmp_path, *options, logged=logged) as (address, process):
        session = trusting_session(token)
        client = Client(address, session=session)
        assert address.startswith("https://127.0.0.1:")
        for _ in range(20):
            client.load()
        assert client.get(f"/{'x' * 20_000}").status == 414  # refused by the protocol itself, which then closes
        assert Client(address, session=trusting_session(UNKNOWN)).get("/namespaces").status == 401
        metrics = session.get(f"{address}/metrics", timeout=60).text
        workers = psutil.Process(process).children()
        arguments = [" ".join(worker.cmdline()) for worker in (psutil.Process(process), *workers)]
        session.close()
    assert len(workers) == 2
    assert '"principal":"ann"' in logged[0]
    secrets = (token.split("_")[2], Path(f"{database.removeprefix('sqlite:///')}-pepper").read_text().strip(), UNKNOWN)
    for text in (*arguments, *logged, metrics):
        assert not any(secret in text for secret in secrets)


def trusting_session(token: str) -> requests.Session:
    session = bearer_session(token)
    session.trust_env = False  # a variable with a bundle of certificates would win
    session.verify = str(TLS / "certificate.pem")
    return session
