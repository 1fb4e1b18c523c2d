"""`frazil warehouse` as an operator uses it: where secrets come from, and what is asked before something is dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.cli.main import cli
from frazil.errors import ConfigError, FrazilError, WarehouseError

SECRET = "hunter2-of-the-store"
CREATE = ("create", "cold", "s3://lake/cold", "--access-key-id", "AKIA1")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET", SECRET)
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    return tmp_path


def frazil(*words: str, key: bool = True, stdin: str | None = None) -> Result:
    if key and not Path("key").exists():
        assert CliRunner().invoke(cli, ["warehouse", "new-key", "key"]).exit_code == 0
    settings = ["--set", "server.secret_key_file=key"] if key else []
    result = CliRunner().invoke(cli, [*settings, "warehouse", *words], input=stdin)
    assert SECRET not in result.output + result.stderr + str(result.exception)
    return result


@pytest.mark.parametrize(
    "source", [("--secret-from-env", "SECRET"), ("--secret-file", "secret"), ("--secret-file", "-")]
)
def test_a_secret_comes_from_a_variable_a_file_or_standard_input(source: tuple[str, str]) -> None:
    assert frazil(*CREATE, *source, stdin=f"{SECRET}\n").output == "created warehouse cold at s3://lake/cold\n"
    shown = frazil("show", "cold").output
    assert "access key id: AKIA1\n" in shown
    assert frazil("update", "cold", *source, stdin=SECRET).output == "changed warehouse cold\n"


def test_a_secret_is_not_an_option_and_not_left_out() -> None:
    assert frazil(*CREATE, "--secret-access-key", "x").exit_code == 2
    assert "--secret-file or --secret-from-env" in frazil(*CREATE).stderr
    for source in (("--secret-from-env", "MISSING"), ("--secret-file", "missing")):
        assert isinstance(frazil(*CREATE, *source).exception, WarehouseError)
    both = frazil(*CREATE, "--secret-from-env", "SECRET", "--secret-file", "secret")
    assert both.exit_code == 2


def test_a_secret_without_a_key_is_refused_and_a_warehouse_without_secrets_needs_none() -> None:
    refused = frazil(*CREATE, "--secret-from-env", "SECRET", key=False).exception
    assert isinstance(refused, ConfigError)
    assert "frazil warehouse new-key" in str(refused.hint)
    assert frazil("create", "cold", "s3://lake/cold", "--region", "eu-west-1", key=False).exit_code == 0


def test_a_drop_says_what_it_drops_and_asks() -> None:
    frazil("create", "cold", "folder/cold", key=False)
    kept = frazil("drop", "cold", stdin="n\n")
    assert kept.output.endswith("nothing was dropped\n")
    assert f"warehouse cold at file://{Path.cwd()}/folder/cold: 0 namespaces, 0 grants" in kept.stderr
    assert frazil("drop", "cold", stdin="y\n").output.endswith("dropped warehouse cold\n")
    assert isinstance(frazil("drop", "cold", "--yes").exception, FrazilError)


def test_options_can_be_changed_and_removed() -> None:
    frazil("create", "cold", "s3://lake/cold", "--endpoint", "http://store:8333", "--role-arn", "arn:aws:iam::1:role/x")
    shown = frazil("show", "cold").output
    assert "endpoint: http://store:8333\npath style: True\n" in shown
    assert "delegation: vended-credentials\n" in shown
    frazil("update", "cold", "--role-arn", "", "--virtual-hosted", "--session-seconds", "900")
    shown = frazil("show", "cold").output
    assert "endpoint: http://store:8333\npath style: False\n" in shown
    assert "role arn: -\nsts endpoint: -\nsession seconds: 900\ndelegation: none\n" in shown
    assert frazil("update", "cold").exit_code == 2
    needs_secret = frazil("update", "cold", "--access-key-id", "AKIA2").exit_code
    assert needs_secret == 2


def test_the_same_name_in_the_settings_and_the_database_is_refused(project: Path) -> None:
    (project / "frazil.toml").write_text("[server]\nwarehouses = {}\n")
    assert frazil("create", "default", "s3://lake/default", key=False).exit_code == 0
    (project / "frazil.toml").unlink()
    served = CliRunner().invoke(cli, ["serve", "--port", "0"])
    assert isinstance(served.exception, ConfigError)
    assert (served.exception.name, served.exception.option) == ("default", "server.warehouses")
