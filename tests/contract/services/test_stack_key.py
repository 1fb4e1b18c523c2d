"""A local stack whose catalog has authentication on: the key that `frazil up` makes for commands of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.catalog import open_database
from frazil.catalog.access.keys import check_of, read_pepper
from frazil.catalog.store.access import pepper_check
from frazil.cli.main import cli
from frazil.config import Settings, load_settings
from frazil.local_stack import catalog_database, catalog_key_file, read_catalog_key
from frazil.served import Served, record_served
from frazil.services.catalog import Catalog
from frazil.services.trino import Trino

KEYS = '[server]\nauthentication = "keys"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "frazil.toml").write_text(KEYS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".frazil"


def stack_settings() -> Settings:
    return load_settings(environ={})


def test_the_project_uses_a_key_of_its_own_and_its_commands_find_the_stacks_database(folder: Path) -> None:
    service = Catalog(stack_settings())
    service.prepare()
    key = read_catalog_key(folder)
    assert key is not None
    assert catalog_key_file(folder).stat().st_mode & 0o777 == 0o600
    service.prepare()
    assert read_catalog_key(folder) == key  # made once
    assert stack_settings().catalog.token is None
    record_served(folder, Served("up", "http://127.0.0.1:4711", os.getpid()))
    settings = stack_settings()
    assert settings.catalog.token is not None
    assert settings.catalog.token.get_secret_value() == key
    assert Trino(settings)._token() == key
    listed = CliRunner().invoke(cli, ["token", "list"])
    assert listed.stdout.split()[:3] == [key.split("_")[1], "local-stack", "valid"]
    database = open_database(f"sqlite:///{catalog_database(folder)}")
    pepper = read_pepper(Path(f"{catalog_database(folder)}-pepper"))
    assert pepper_check(database.read()) == check_of(pepper)
    database.close()


def test_a_token_or_a_credential_of_the_user_wins_over_the_key_of_the_stack(folder: Path) -> None:
    catalog_key_file(folder).parent.mkdir(parents=True)
    catalog_key_file(folder).write_text("frz_stack\n")
    record_served(folder, Served("up", "http://127.0.0.1:4711", os.getpid()))
    own = load_settings(environ={}, flags={"catalog.token": "mine"}).catalog.token
    assert own is not None
    assert own.get_secret_value() == "mine"
    flags = {"catalog.properties.credential": "id:secret"}
    assert load_settings(environ={}, flags=flags).catalog.token is None
    assert load_settings(environ={}, flags={"catalog.uri": "http://127.0.0.1:1"}).catalog.token is None
    assert load_settings(environ={}, flags={"server.authentication": "off"}).catalog.token is None


def test_without_authentication_no_key_is_made(folder: Path) -> None:
    (folder.parent / "frazil.toml").write_text("")
    Catalog(stack_settings()).prepare()
    assert read_catalog_key(folder) is None
