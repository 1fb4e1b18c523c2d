"""Settings: which source wins, what is refused, what stays hidden."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

from frazil.config import Settings, load_settings
from frazil.errors import ConfigError
from tests.kit.raising import raises

TOML = """
[catalog]
uri = "http://file:1"
warehouse = "from-file"
[profiles.prod.catalog]
uri = "https://prod:1"
[profiles.prod.s3]
secret_access_key = "${ENV:PROD_SECRET}"
"""


def load(folder: Path, **kwargs: object) -> Settings:
    return load_settings(folder=folder, environ={"HOME": "/nonexistent", **kwargs.pop("environ", {})}, **kwargs)  # type: ignore[arg-type, dict-item]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "frazil.toml").write_text(TOML)
    return tmp_path


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()


def test_flags_win_over_environment_over_file(project: Path) -> None:
    env = {"FRAZIL_CATALOG__URI": "http://env:1"}
    flags = {"catalog.uri": "http://flag:1"}
    result = [
        load(project).catalog.uri,
        load(project, environ=env).catalog.uri,
        load(project, environ=env, flags=flags).catalog.uri,
    ]
    assert result == ["http://file:1", "http://env:1", "http://flag:1"]


def test_a_profile_overrides_the_file_and_keeps_the_rest(project: Path) -> None:
    settings = load(project, profile="prod", environ={"PROD_SECRET": "s"})
    assert (settings.profile, settings.catalog.uri, settings.catalog.warehouse) == (
        "prod",
        "https://prod:1",
        "from-file",
    )


def test_the_profile_comes_from_the_environment_too(project: Path) -> None:
    assert load(project, environ={"FRAZIL_PROFILE": "prod", "PROD_SECRET": "s"}).profile == "prod"


def test_an_unknown_profile_names_the_known_ones(project: Path) -> None:
    with raises(ConfigError, name="stage"):
        load(project, profile="stage")


def test_a_secret_by_reference_is_resolved_and_never_printed(project: Path) -> None:
    settings = load(project, profile="prod", environ={"PROD_SECRET": "hunter2"})
    assert settings.s3.secret_access_key is not None
    assert settings.s3.secret_access_key.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_reference_to_a_missing_variable_names_both(project: Path) -> None:
    with raises(ConfigError, option="s3.secret_access_key"):
        load(project, profile="prod")


def test_a_wrong_secret_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "frazil.toml").write_text('[catalog]\ntoken = ["hunter2"]\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "catalog.token" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_key_suggests_the_nearest(tmp_path: Path) -> None:
    with raises(ConfigError, option="catalog.ur"):
        load(tmp_path, environ={"FRAZIL_CATALOG__UR": "x"})


def test_a_value_of_the_wrong_kind_names_key_source_and_value(tmp_path: Path) -> None:
    with raises(ConfigError, option="stack.ports.kafka"):
        load(tmp_path, flags={"stack.ports.kafka": "many"})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "frazil.toml").write_text("[catalog\n")
    with raises(ConfigError, path=re.compile(r"frazil\.toml$")):
        load(tmp_path)


def test_connections_of_pyiceberg_are_read_from_file_and_environment(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n    type: rest\n    uri: http://yaml:1\n    s3.endpoint: http://s3\n    header.x: '1'\n"
    )
    from_file = load(tmp_path)
    from_env = load(
        tmp_path,
        environ={"PYICEBERG_CATALOG__LAKE__URI": "http://env:1", "PYICEBERG_CATALOG__LAKE__S3__ACCESS_KEY_ID": "me"},
    )
    assert (from_file.catalog.uri, from_file.s3.endpoint, from_file.catalog.properties) == (
        "http://yaml:1",
        "http://s3",
        {"header.x": "1"},
    )
    assert (from_env.catalog.uri, from_env.s3.access_key_id.get_secret_value()) == ("http://env:1", "me")  # type: ignore[union-attr]


def test_frazils_own_settings_win_over_pyicebergs_of_the_same_kind(project: Path) -> None:
    (project / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    uri: http://yaml:1\n")
    env = {"PYICEBERG_CATALOG__LAKE__URI": "http://pyiceberg-env:1"}
    assert load(project).catalog.uri == "http://file:1"
    assert load(project, environ=env).catalog.uri == "http://pyiceberg-env:1"
    assert load(project, environ={**env, "FRAZIL_CATALOG__URI": "http://env:1"}).catalog.uri == "http://env:1"


def test_the_catalogs_name_chooses_pyicebergs_connection(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog:\n  prod:\n    uri: http://prod:1\n  lake:\n    uri: http://lake:1\n"
    )
    assert load(tmp_path, flags={"catalog.name": "prod"}).catalog.uri == "http://prod:1"


def test_lists_come_from_toml_and_from_commas(tmp_path: Path) -> None:
    assert load(tmp_path, environ={"FRAZIL_SERVER__ALLOW_LOCATIONS": "file:/tmp, s3://b"}).server.allow_locations == (
        "file:/tmp",
        "s3://b",
    )


def test_names_of_other_programs_keep_their_dots_wherever_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "frazil.toml").write_text(
        '[spark.conf]\n"spark.a.b" = 1\nspark.ui.enabled = true\n"spark.file" = "f"\n'
    )
    env = {"FRAZIL_CATALOG__PROPERTIES__HEADER__X": "1"}
    settings = load(tmp_path, flags={"spark.conf.spark.a.b": "2"}, environ=env)
    assert settings.spark.conf == {"spark.a.b": "2", "spark.ui.enabled": "true", "spark.file": "f"}
    assert settings.catalog.properties == {"header.x": "1"}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('catalog = "name"', {"option": "catalog"}),
        ('profiles = "x"', {"name": "local"}),
        ('[profiles]\nlocal = "x"', {"name": "local"}),
        ("[spark.conf]\na = [1]", {"option": re.compile(r"^spark\.conf\.a \(.*frazil\.toml\)$")}),
    ],
)
def test_a_value_where_a_table_belongs_is_refused_by_name(tmp_path: Path, text: str, facts: dict[str, object]) -> None:
    (tmp_path / "frazil.toml").write_text(text)
    with raises(ConfigError, **facts):
        load(tmp_path)


def test_a_section_and_a_setting_below_it_cannot_both_be_given(tmp_path: Path) -> None:
    with raises(ConfigError, option="catalog"):
        load(tmp_path, flags={"catalog": "x", "catalog.uri": "y"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with raises(ConfigError, path=str(tmp_path)):
        load(tmp_path, environ={"FRAZIL_CONFIG": str(tmp_path)})


@pytest.mark.parametrize(
    "text",
    ['[catalog.properties]\ncredential = ["hunter2"]', '[s3]\nsecret_access_key = ["hunter2"]', 's3 = ["hunter2"]'],
)
def test_no_traceback_of_a_wrong_setting_holds_what_was_given(tmp_path: Path, text: str) -> None:
    (tmp_path / "frazil.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_credentials_among_a_connections_properties_are_not_in_the_repr(tmp_path: Path) -> None:
    assert "hunter2" not in repr(
        load(tmp_path, flags={"catalog.properties.credential": "hunter2", "spark.conf.my.key": "hunter2"})
    )
