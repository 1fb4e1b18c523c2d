"""`frazil config` shows where a value came from, and never a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.main import cli


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_secrets_are_hidden_wherever_they_came_from(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "frazil.toml").write_text(
        '[s3]\nsecret_access_key = "${ENV:MY_KEY}"\n[server]\ndatabase = "postgresql://u:pw-sekrit@h/db"\n'
    )
    (project / ".pyiceberg.yaml").write_text(
        "catalog:\n  lake:\n    credential: id:credential-sekrit\n    token: token-sekrit\n"
    )
    monkeypatch.setenv("MY_KEY", "key-sekrit")
    for output in ("text", "json"):
        result = CliRunner().invoke(cli, ["config", "--output", output], env={"COLUMNS": "200"})
        assert result.exit_code == 0, result.output
        assert "sekrit" not in result.output
        assert "postgresql://u:***@h/db" in result.output


def test_each_value_names_its_source(project: Path) -> None:
    (project / "frazil.toml").write_text('[s3]\nregion = "eu"\n')
    result = CliRunner().invoke(
        cli, ["--set", "spark.master=local[1]", "config", "--output", "json"], env={"FRAZIL_CATALOG__URI": "http://h"}
    )
    rows = {row["key"]: row["source"] for row in json.loads(result.output)}
    assert (rows["s3.region"], rows["spark.master"], rows["catalog.uri"], rows["server.port"]) == (
        str(project / "frazil.toml"),
        "flag",
        "FRAZIL_CATALOG__URI",
        "default",
    )


def test_brackets_in_values_and_profiles_are_shown_as_they_are(project: Path) -> None:
    (project / "frazil.toml").write_text('[profiles.prod.catalog]\nname = "[/x]"\n')
    result = CliRunner().invoke(cli, ["--profile", "prod", "config"])
    assert result.exit_code == 0, result.output
    assert "[/x]" in result.output
    assert f"{project / 'frazil.toml'} [profiles.prod]" in result.output


def test_passwords_in_any_url_and_among_spark_settings_are_hidden(project: Path) -> None:
    (project / "frazil.toml").write_text(
        '[catalog]\nuri = "http://me:sekrit@h"\n[server]\ndatabase = "postgresql:///cat?password=sekrit"\n'
        '[spark.conf]\n"spark.hadoop.fs.s3a.secret.key" = "sekrit"\n"spark.cores.max" = 2\n'
    )
    result = CliRunner().invoke(cli, ["config"])
    assert "sekrit" not in result.output
    assert all(
        text in result.output
        for text in ("http://me:***@h", "postgresql:///cat?password=***", "'spark.cores.max': '2'")
    )
