"""The references of settings and errors name everything that there is."""

from __future__ import annotations

import pytest

from frazil import config, errors
from tools import error_reference, settings_reference
from tools.settings_reference import PARAMETERS

TABLES = {name: (model, about) for name, model, about in settings_reference.sections()}
SETTINGS = [setting for name, (model, _) in TABLES.items() for setting in settings_reference.settings_of(model, name)]
BELOW_NAMES = tuple(f"{name}.{parameter}." for name, parameter in PARAMETERS.items())


def test_the_reference_has_every_setting() -> None:
    keys = {each.key for each in SETTINGS if not each.key.startswith(BELOW_NAMES) and not each.type.startswith("map")}
    assert keys == set(config.known_keys()) - {"profile", "server.warehouses.default"}
    assert [name for name in BELOW_NAMES if not any(each.key.startswith(name) for each in SETTINGS)] == []


def test_every_setting_and_every_table_of_settings_says_what_it_means() -> None:
    assert [setting.key for setting in SETTINGS if not setting.meaning] == []
    assert [name for name, (_, about) in TABLES.items() if not about] == []


@pytest.mark.parametrize("setting", [each for each in SETTINGS if each.type == "secret"], ids=lambda each: each.key)
def test_a_secret_has_no_default_but_the_file_of_the_catalog(setting: settings_reference.Setting) -> None:
    assert setting.default == {"server.database": "sqlite:///.frazil/catalog/catalog.db"}.get(setting.key, "")


def test_a_variable_of_the_reference_sets_its_setting() -> None:
    (setting,) = (each for each in SETTINGS if each.key == "stack.ports.kafka")
    settings = config.load_settings(environ={setting.variable: "19092"})
    assert settings.stack.ports.kafka == 19092


def test_the_reference_has_every_error() -> None:
    names = [kind.__name__ for kind in error_reference.tree(errors.FrazilError)]
    assert sorted(names) == sorted(set(errors.__all__) - {"Facts"})


def test_the_facts_of_an_error_are_those_that_it_has() -> None:
    error = errors.TooManyBadRows("daily", bad=1, rows=2, limit=0.05, reasons={"null": 1})
    assert set(error_reference.facts(type(error))) == set(error.facts)
