"""The catalog comes from the settings: a file, PyIceberg's file, the environment, or arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from frazil.client import FrazilCatalog, connect
from frazil.client.catalog import catalog_properties
from frazil.config import load_settings


def test_settings_become_pyiceberg_properties(tmp_path: Path) -> None:
    flags = {"catalog.uri": "http://c", "s3.endpoint": "http://s", "s3.access_key_id": "k", "s3.secret_access_key": "p"}
    settings = load_settings(folder=tmp_path, environ={"PYICEBERG_CATALOG__LAKE__HEADER__X_TEAM": "sales"}, flags=flags)
    assert catalog_properties(settings) == {
        "uri": "http://c",
        "s3.endpoint": "http://s",
        "s3.region": "us-east-1",
        "s3.access-key-id": "k",
        "s3.secret-access-key": "p",
        "header.x-team": "sales",
    }


def test_what_is_not_set_is_left_to_pyiceberg(tmp_path: Path) -> None:
    assert catalog_properties(load_settings(folder=tmp_path, environ={})) == {"uri": "http://127.0.0.1:8181"}


def test_connect_reads_the_settings_that_hold_here(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "frazil.toml").write_text(f'[catalog]\nname = "mine"\nuri = "{uri}"\n')
    monkeypatch.chdir(tmp_path)
    catalog = connect()
    assert (catalog.name, catalog.uri) == ("mine", uri)
    assert catalog.list_namespaces() is not None


def test_connect_reads_pyicebergs_own_file(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  lake:\n    uri: {uri}\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    assert connect().uri == uri


def test_arguments_win_over_settings(uri: str, tmp_path: Path) -> None:
    settings = load_settings(folder=tmp_path, environ={}, flags={"catalog.uri": "http://127.0.0.1:1"})
    assert connect(settings, uri=uri).uri == uri


def test_pyicebergs_load_catalog_gives_ours_when_named(uri: str) -> None:
    catalog = load_catalog("lake", **{"py-catalog-impl": "frazil.client.FrazilCatalog", "uri": uri})
    assert isinstance(catalog, FrazilCatalog)


def test_the_api_is_small_and_pinned() -> None:
    import frazil.client

    assert frazil.client.__all__ == ["CatalogTransaction", "FrazilCatalog", "connect"]
