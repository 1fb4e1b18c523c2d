"""Configurations for other engines: what stays out of them, and what goes in when it is asked for."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

import pytest
import yaml

from frazil.client import FrazilCatalog
from frazil.config import load_settings
from frazil.engine_config.connection import S3, Connection, find_connection
from frazil.engine_config.engines import trino
from frazil.engine_config.known import ENGINES, VENDED
from frazil.errors import ConfigError
from tests.kit.raising import raises

SECRETS = ("KEY-abc", "s3cr'et\"x", "t0k$en")
FULL = Connection(
    "lake",
    "https://catalog:1",
    "wh",
    SECRETS[2],
    S3("https://s3:2", "eu-north-1", True, *SECRETS[:2]),
    {"header.x-key": "hunter2"},
)


SETS_VARIABLES = dict.fromkeys(ENGINES, "never") | {
    "polars": "os.environ['AWS_SECRET_ACCESS_KEY'] = ",
    "sail": "export AWS_SECRET_ACCESS_KEY='",
    "env": "export AWS_SECRET_ACCESS_KEY='",
}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_secret_is_printed_unless_asked_for(engine: str) -> None:
    hidden, shown = ENGINES[engine](FULL), ENGINES[engine](FULL, show_secrets=True)
    assert [secret for secret in (*SECRETS, "hunter2") if secret in hidden] == []
    assert SECRETS[0] in shown
    assert "AWS_SECRET_ACCESS_KEY" in hidden
    assert "AWS_SECRET_ACCESS_KEY" not in shown or SETS_VARIABLES[engine] in shown
    assert engine == "trino" or "header.x-key" in hidden


def test_a_trino_file_names_warehouse_and_token() -> None:
    lines = trino(FULL).splitlines()
    assert "iceberg.rest-catalog.warehouse=wh" in lines
    assert "iceberg.rest-catalog.security=OAUTH2" in lines
    assert "iceberg.rest-catalog.oauth2.token=${ENV:FRAZIL_CATALOG__TOKEN}" in lines


def test_a_credential_is_named_where_an_engine_takes_one() -> None:
    own = {"credential": "an-id:a-secret", "oauth2-server-uri": "https://catalog:1/t"}
    to = replace(FULL, token=None, properties=own)
    variable = "FRAZIL_CATALOG__PROPERTIES__CREDENTIAL"
    expected = {
        "trino": f"iceberg.rest-catalog.oauth2.credential=${{ENV:{variable}}}",
        "spark": f"env:{variable}",
        "pyiceberg": "export PYICEBERG_CATALOG__LAKE__CREDENTIAL=",
        "duckdb": f"CLIENT_ID split_part(getenv('{variable}'), ':', 1)",
        "daft": f'os.environ["{variable}"]',
    }
    for engine, text in expected.items():
        hidden, shown = ENGINES[engine](to), ENGINES[engine](to, show_secrets=True)
        assert text in hidden
        assert "https://catalog:1/t" in hidden
        assert "left out" not in hidden
        assert "a-secret" not in hidden
        assert "a-secret" in shown


VENDED_WORDS = {
    "trino": "iceberg.rest-catalog.vended-credentials-enabled=true",
    "spark": "spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation vended-credentials",
    "pyiceberg": "s3.endpoint",  # asks for credentials by itself
    "duckdb": "ACCESS_DELEGATION_MODE 'vended_credentials'",
    "daft": "io_config = None",
}


@pytest.mark.parametrize("show_secrets", [False, True])
@pytest.mark.parametrize("engine", VENDED)
def test_with_vended_credentials_an_engine_gets_no_keys_of_the_store(engine: str, show_secrets: bool) -> None:
    text = ENGINES[engine](replace(FULL, vended=True), show_secrets=show_secrets)
    assert VENDED_WORDS[engine] in text
    assert [word for word in (*SECRETS[:2], "AWS_") if word in text] == []
    assert ("TOKEN" in text or "token" in text, SECRETS[2] in text) == (True, show_secrets)


class Vending:
    """A catalog that vends credentials."""

    properties: ClassVar[dict[str, str]] = {"s3.endpoint": "https://s3:2"}
    vends_credentials = True
    signs_requests = True


class Signing(Vending):
    """One that signs, and does not vend."""

    vends_credentials = False


@pytest.mark.parametrize(
    ("flags", "variables", "asked", "vended"),
    [
        ({}, {}, False, True),
        ({"s3.access_key_id": "KEY"}, {}, False, False),
        ({"s3.access_key_id": "KEY"}, {}, True, True),
        ({}, {"AWS_ACCESS_KEY_ID": "KEY"}, False, False),
        ({"s3.endpoint": "https://s3:2"}, {}, False, False),  # the catalog is not asked
    ],
)
def test_who_has_no_keys_gets_credentials_of_the_catalog(
    flags: dict[str, str],
    variables: dict[str, str],
    asked: bool,
    vended: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings(flags=flags, environ={}, folder=tmp_path)
    assert find_connection(settings, lambda: cast("FrazilCatalog", Vending()), vended=asked).vended is vended


@pytest.mark.parametrize(
    ("catalog", "flags", "asked", "expected"),
    [
        (Signing, {}, False, (False, True)),
        (Signing, {"s3.access_key_id": "KEY"}, False, (False, False)),
        (Signing, {"s3.access_key_id": "KEY"}, True, (False, True)),
        (Vending, {}, False, (True, False)),
        (Vending, {}, True, (False, True)),
    ],
)
def test_who_has_no_keys_and_gets_no_credentials_has_requests_signed(
    catalog: type[Vending],
    flags: dict[str, str],
    asked: bool,
    expected: tuple[bool, bool],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    settings = load_settings(flags=flags, environ={}, folder=tmp_path)
    to = find_connection(settings, lambda: cast("FrazilCatalog", catalog()), signed=asked)
    assert (to.vended, to.signed) == expected


@pytest.mark.parametrize("show_secrets", [False, True])
def test_with_signed_requests_spark_gets_no_keys_and_leaves_the_purge_to_the_catalog(show_secrets: bool) -> None:
    text = ENGINES["spark"](replace(FULL, signed=True), show_secrets=show_secrets)
    assert [word for word in (*SECRETS[:2], "AWS_", "vended") if word in text] == []
    assert re.search(r"Delegation +remote-signing\n.*rest-catalog-purge +true\n", text)


def test_trino_needs_an_object_store() -> None:
    with raises(ConfigError, problem="local-files"):
        trino(Connection("lake", "http://catalog:1"))


@pytest.mark.parametrize("to", [FULL, Connection("lake", "http://catalog:1")])
def test_what_is_printed_can_be_read(to: Connection) -> None:
    known = yaml.safe_load(ENGINES["pyiceberg"](to, show_secrets=True))["catalog"]["lake"]
    assert (known["uri"], known.get("s3.secret-access-key")) == (to.uri, to.s3.secret if to.s3 else None)
    for engine in ("daft", "polars", "ibis"):
        compile(ENGINES[engine](to, show_secrets=True), f"lake_{engine}.py", "exec")
        compile(ENGINES[engine](to), f"lake_{engine}.py", "exec")
    (attached,) = yaml.safe_load(ENGINES["dbt"](to, show_secrets=True))["lake"]["outputs"]["dev"]["attach"]
    assert attached["options"]["endpoint"] == to.uri
    if to.s3:
        assert (
            tomllib.loads(ENGINES["dlt"](to, show_secrets=True))["destination"]["filesystem"]["credentials"][
                "endpoint_url"
            ]
            == to.s3.endpoint
        )
    assert all(len(line.split(maxsplit=1)) == 2 for line in ENGINES["spark"](to).splitlines())
