"""Events of OpenLineage: the standard's client sends them to a receiver over HTTP; what fails there fails no run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.client import FrazilCatalog
from frazil.openlineage import lineage_events
from frazil.pipelines import RunResult, RunStart, tell_aborted, tell_ended, tell_started
from frazil.pipelines.models import model
from frazil.project import Project
from tests.contract.history_lake import Past
from tests.kit.lineage_events import check_event, facets_of, receiver

RUN, FAILED = "0b4f9d54-7d1c-4f1e-9d0c-1f3e5b7a9c11", "3d0a5a0e-6c1f-4a55-8a1e-2b9c6f4d7e22"


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """None of the user's own settings; the client adds variables of its own."""
    import os

    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = dict(os.environ)
    yield monkeypatch
    for name in set(os.environ) - set(before):
        del os.environ[name]


@pytest.fixture
def past(catalog: FrazilCatalog) -> Past:
    past = Past(catalog)
    past.create()
    return past


def run_twice(past: Past, folder: Path) -> None:
    """A run that is committed and one that fails, as pipelines tell of them."""
    upper = model("gold.names", f"SELECT id, upper(name) AS name FROM {past.name}")
    project = Project(folder, (), (), (upper,))
    snapshot_id = past.append(1, 2)
    with lineage_events(project, lambda: past.catalog):
        tell_started(RunStart(RUN, "gold.names", past.name, {past.name: snapshot_id}))
        tell_ended(RunResult("gold.names", past.name, rows=2, snapshot_id=7, run_id=RUN))
        topics = ("kafka://h:9092/orders",)
        tell_started(RunStart(FAILED, "daily", past.name, files=("landing/a.csv",), topics=topics))
        tell_ended(RunResult("daily", past.name, run_id=FAILED, error="amount: expected decimal(12,2), got 'x'"))


def test_a_receiver_gets_start_and_end_of_every_run_with_its_tables(
    past: Past, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with receiver() as (url, events):
        environ.setenv("OPENLINEAGE_URL", url)
        environ.setenv("OPENLINEAGE_PARENT_ID", f"airflow/daily.load/{FAILED}")
        run_twice(past, tmp_path)
    assert [(event["eventType"], event["job"]["name"]) for event in events] == [
        ("START", "frazil run"),
        ("START", "gold.names"),
        ("COMPLETE", "gold.names"),
        ("START", "daily"),
        ("FAIL", "daily"),
        ("FAIL", "frazil run"),
    ]
    command, _, done, _, failed, _ = events
    namespace = f"{past.catalog.properties['uri'].rstrip('/')}/default"
    (source,), (target,) = done["inputs"], done["outputs"]
    assert (source["namespace"], source["name"], target["name"]) == (namespace, past.name, past.name)
    assert source["facets"]["version"]["datasetVersion"] == str(past.head())
    assert [(f["name"], f["type"]) for f in target["facets"]["schema"]["fields"]] == [
        ("id", "long"),
        ("name", "string"),
    ]
    assert (target["outputFacets"]["outputStatistics"]["rowCount"], target["facets"]["version"]["datasetVersion"]) == (
        2,
        "7",
    )
    assert [f["field"] for f in target["facets"]["columnLineage"]["fields"]["name"]["inputFields"]] == ["name"]
    assert done["job"]["facets"]["sql"]["query"].startswith("SELECT id, upper(name)")
    assert done["run"]["facets"]["parent"]["run"]["runId"] == command["run"]["runId"]
    assert command["run"]["facets"]["parent"]["job"] == {"namespace": "airflow", "name": "daily.load", "facets": {}}
    assert failed["run"]["facets"]["errorMessage"]["message"] == "amount: expected decimal(12,2), got 'x'"
    assert [(f["namespace"], f["name"]) for f in failed["inputs"]] == [
        ("file", str(tmp_path / "landing/a.csv")),
        ("kafka://h:9092", "orders"),
    ]


def test_a_run_that_another_one_replaces_is_aborted_and_the_command_completes(
    past: Past, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with receiver() as (url, events):
        environ.setenv("OPENLINEAGE_URL", url)
        with lineage_events(Project(tmp_path, (), (), ()), lambda: past.catalog):
            tell_started(RunStart(FAILED, "gold.names", past.name))
            tell_aborted(FAILED, "the table has changed")
            tell_aborted("one that has not started", "the table has changed")
            tell_started(RunStart(RUN, "gold.names", past.name))
            tell_ended(RunResult("gold.names", past.name, rows=2, snapshot_id=7, run_id=RUN))
    assert [(event["eventType"], event["job"]["name"]) for event in events] == [
        ("START", "frazil run"),
        ("START", "gold.names"),
        ("ABORT", "gold.names"),
        ("START", "gold.names"),
        ("COMPLETE", "gold.names"),
        ("COMPLETE", "frazil run"),
    ]
    for event in events:
        check_event(event)
    aborted, command = events[2], events[-1]
    assert aborted["run"]["runId"] == FAILED
    assert aborted["run"]["facets"]["errorMessage"]["message"] == "the table has changed"
    assert "errorMessage" not in command["run"]["facets"]


def test_a_run_that_fails_before_it_starts_fails_the_command(
    past: Past, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with receiver() as (url, events):
        environ.setenv("OPENLINEAGE_URL", url)
        with lineage_events(Project(tmp_path, (), (), ()), lambda: past.catalog):
            tell_started(RunStart(RUN, "gold.names", past.name))
            tell_ended(RunResult("gold.names", past.name, rows=2, snapshot_id=7, run_id=RUN))
            tell_ended(RunResult("gold.later", past.name, run_id=FAILED, error="no such table"))
    assert [event["eventType"] for event in events] == ["START", "START", "COMPLETE", "FAIL"]


def test_every_facet_names_its_producer_and_its_schema(past: Past, environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "openlineage.yml").write_text(
        f"transport: {{type: file, log_file_path: {tmp_path / 'events.json'}, append: true}}"
    )
    environ.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    run_twice(past, tmp_path)
    events = [json.loads(line) for line in (tmp_path / "events.json").read_text().splitlines()]
    facets = [facet for event in events for facet in facets_of(event)]
    assert len(events) == 6
    for event in events:
        check_event(event)
    assert all({"_producer", "_schemaURL"} <= facet.keys() for facet in facets)
    assert all(event["schemaURL"].endswith("#/$defs/RunEvent") for event in events)


@pytest.mark.parametrize("kind", ["refused", "away", "wrong"])
def test_a_receiver_that_fails_is_a_warning(
    past: Past, environ: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    environ.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    with receiver(400) as (url, _):
        if kind == "refused":
            environ.setenv("OPENLINEAGE_URL", url)
            run_twice(past, tmp_path)
    if kind == "away":
        environ.setenv("OPENLINEAGE_URL", url)
        run_twice(past, tmp_path)
    if kind == "wrong":
        environ.setenv("OPENLINEAGE__TRANSPORT__TYPE", "no.such.Transport")
        run_twice(past, tmp_path)
    assert {record.levelname for record in caplog.records if record.name == "frazil.openlineage"} == {"WARNING"}


def test_nothing_is_sent_unless_it_is_configured(past: Past, environ: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with receiver() as (url, events):
        run_twice(past, tmp_path)
        environ.setenv("OPENLINEAGE_URL", url)
        environ.setenv("OPENLINEAGE_DISABLED", "true")
        run_twice(past, tmp_path)
    assert events == []
