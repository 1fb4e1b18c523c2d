"""`--env` where it cannot work: pipelines over Kafka, streams, and names that no environment can have."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from frazil.cli.main import cli
from frazil.errors import HistoryError, ProjectError

PROJECT = """
from frazil import Table, column, model, pipeline, sources

events = Table("bronze.events", column("id", "long"))

@pipeline(source=sources.kafka("events", servers="127.0.0.1:1"), target=events)
def load_events(rows):
    return rows

copy = model("silver.events", "SELECT id FROM bronze.events")
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lakehouse.py").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)


def frazil(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.parametrize("names", [("load_events",), ("load_events", "silver.events"), ("load_events", "--dry-run")])
def test_a_pipeline_over_kafka_that_is_named_is_refused_with_the_way_out(names: tuple[str, ...]) -> None:
    error = frazil("run", *names, "--env", "dev").exception
    assert isinstance(error, ProjectError)
    assert (error.pipeline, error.option) == ("load_events", "env")
    assert error.hint == "run it on main; models in the environment read what it has written there"


def test_a_stream_has_no_environment() -> None:
    result = frazil("stream", "load_events", "--env", "dev")
    assert (result.exit_code, "No such option" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", ["main", "audit-x", "a b", ""])
def test_a_name_that_no_environment_can_have_is_refused(name: str) -> None:
    assert isinstance(frazil("run", "silver.events", "--env", name).exception, HistoryError)
    assert isinstance(frazil("graph", "--state", "--env", name).exception, HistoryError)
