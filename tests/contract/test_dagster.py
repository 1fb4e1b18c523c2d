"""Assets of Dagster, with the real library: one per table, its dependencies, and what a failed command becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # Dagster's own

PROJECT = """
from frazil import Table, column, model, pipeline, sources

orders = Table("raw.orders", column("id", "long"), column("amount", "long"))

@pipeline(source=sources.csv("landing/*.csv"), target=orders, tags=["hourly"])
def load(rows):
    return rows

clean = model("silver.orders", "SELECT id, amount FROM raw.orders WHERE amount > 0", mode="append", tags=["daily"])
total = model("gold.total", "SELECT sum(amount) AS total, max(rate) AS rate FROM silver.orders, other.rates",
              group="gold", doc="What was sold")
"""


def test_every_table_is_an_asset_with_its_inputs_labels_and_docs(tmp_path: Path) -> None:

    from frazil.dagster import definitions

    (tmp_path / "lakehouse.py").write_text(PROJECT)
    graph = definitions(tmp_path).resolve_asset_graph()
    shown = {key.to_user_string(): graph.get(key) for key in graph.get_all_asset_keys()}
    assert {name: sorted(key.to_user_string() for key in node.parent_keys) for name, node in shown.items()} == {
        "file/landing_csv": [],
        "raw/orders": ["file/landing_csv"],
        "silver/orders": ["raw/orders"],
        "gold/total": ["other/rates", "silver/orders"],
        "other/rates": [],
    }
    assert {name for name, node in shown.items() if node.is_external} == {"file/landing_csv", "other/rates"}
    total = shown["gold/total"]
    assert (total.group_name, total.description) == ("gold", "What was sold")
    assert shown["raw/orders"].tags["hourly"] == ""
    assert total.metadata["frazil/mode"] == "rebuild"


def test_a_materialisation_has_the_inputs_that_its_own_runs_have_read() -> None:
    """Not those of the table's progress, which a later run moves on, and an environment has on a branch."""
    from frazil.dagster import describe_runs

    run = {"rows": 2, "seconds": 1.5, "run_id": "a", "quarantined": 0, "snapshot_id": 7, "inputs": {"raw.a": 1 << 60}}
    second = {**run, "run_id": "b", "snapshot_id": 8, "inputs": {"raw.a": 5, "raw.b": None}}
    unchanged = {**run, "run_id": "", "snapshot_id": None, "inputs": {}}
    load = {name: value for name, value in run.items() if name != "inputs"}  # of a topic
    shown = [describe_runs(runs).get("frazil/input_snapshots") for runs in ([run], [run, second], [unchanged], [load])]
    assert [each and each.value for each in shown] == [
        {"raw.a": str(1 << 60)},
        {"raw.a": "5", "raw.b": None},
        None,
        None,
    ]


def test_a_command_that_fails_fails_the_materialisation_with_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dagster

    from frazil.dagster import project_assets
    from frazil.project import load_project

    (tmp_path / "lakehouse.py").write_text(PROJECT)
    monkeypatch.setenv("FRAZIL_CATALOG__URI", "http://127.0.0.1:1")
    assets = project_assets(load_project(tmp_path))
    result = dagster.materialize([assets], selection=["silver/orders"], raise_on_error=False)
    (event,) = [event for event in result.all_events if event.is_step_failure]
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert "127.0.0.1:1" in (failure.description or "")
    assert failure.metadata["exit_code"].value != 0
