"""`frazil connect` writes the settings of an engine for a catalog that answers."""

from __future__ import annotations

import stat
from pathlib import Path

import yaml
from click.testing import CliRunner

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli


def test_a_file_is_only_its_owners_to_read(tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog") as catalog:
        arguments = [
            "--set",
            f"catalog.uri={catalog.uri}",
            "connect",
            "pyiceberg",
            "--output",
            str(tmp_path / "p.yaml"),
        ]
        result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert (result.exit_code, stat.S_IMODE((tmp_path / "p.yaml").stat().st_mode)) == (0, 0o600)
    assert yaml.safe_load((tmp_path / "p.yaml").read_text()) == {
        "catalog": {"lake": {"type": "rest", "uri": catalog.uri}}
    }
