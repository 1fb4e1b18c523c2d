"""Assets of Dagster from the graph of a project: one per table, with the metadata of each run.

    import frazil.dagster

    defs = frazil.dagster.definitions("/srv/lakehouse")

Selected assets are materialised by `frazil run` in a process of its own, so that Dagster's process holds no JVM, and a
run behaves as it does on the command line: what is up to date is left alone, tables of one group are published as one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frazil.errors import MissingExtra
from frazil.project import Project, load_project

try:
    import dagster
except ModuleNotFoundError as exc:
    raise MissingExtra("dagster", extra="dagster") from exc

if TYPE_CHECKING:
    from frazil.pipelines.graph import Graph, Node

SHOWN_ERROR = 4000  # characters


def definitions(
    folder: str | Path = ".", *, name: str = "frazil", options: Sequence[str] = (), python: str = sys.executable
) -> dagster.Definitions:
    """The assets of the project in `folder`, for Dagster to load.

    - `name`: of the operation that runs them; one per project, if there are several.
    - `options`: more options of `frazil run`, such as `["--atomic"]`.
    - `python`: the interpreter that has Frazil with Spark, if it is not this one.
    """
    project = load_project(Path(folder))
    return dagster.Definitions(
        assets=[*external_assets(project.graph), project_assets(project, name=name, options=options, python=python)]
    )


def project_assets(
    project: Project, *, name: str = "frazil", options: Sequence[str] = (), python: str = sys.executable
) -> dagster.AssetsDefinition:
    """One asset per table that a pipeline or a model fills. Those that are selected together run in one command."""
    docs = {model.name: model.doc for model in project.models}
    specs = [table_asset(project.graph, table, docs.get(table, "")) for table in _filled(project.graph)]

    @dagster.multi_asset(specs=specs, name=name, can_subset=True)
    def run(context):  # type: ignore[no-untyped-def]  # Dagster takes no annotation that is a text
        chosen = {table_of(key) for key in context.selected_asset_keys}
        nodes = [node for node in project.graph.nodes if node.target in chosen]
        results: dict[str, list[Mapping[str, Any]]] = {}
        for names in commands(nodes):
            command = [python, "-m", "frazil", "run", *names, *options, "--output", "json"]
            for result in run_command(command, project.folder, context.log):
                results.setdefault(result["table"], []).append(result)
        for table in _filled(project.graph):
            if table in chosen:
                metadata = describe_runs(results.get(table, []))
                yield dagster.MaterializeResult(asset_key=asset_key(table), metadata=metadata)

    return run


def table_asset(graph: Graph, table: str, doc: str = "") -> dagster.AssetSpec:
    """The asset of a table: its inputs, its labels, and how it is filled."""
    nodes = graph.makers(table)
    inputs = [asset_key(name) for node in nodes for name in node.inputs]
    sources = [source_key(node, source) for node in nodes for source in node.sources]
    group = next((node.group for node in nodes if node.group), None) or table.rpartition(".")[0]
    kinds = {"iceberg", "sql" if nodes[0].kind == "model" else "spark"}
    return dagster.AssetSpec(
        asset_key(table),
        deps=list(dict.fromkeys([*inputs, *sources])),
        description=doc or None,
        group_name=_word(group),
        tags={tag: "" for node in nodes for tag in node.tags},
        kinds=kinds,
        metadata={
            "dagster/table_name": table,
            "frazil/filled_by": ", ".join(node.name for node in nodes),
            "frazil/mode": ", ".join(dict.fromkeys(node.mode for node in nodes)),
        },
    )


def external_assets(graph: Graph) -> list[dagster.AssetSpec]:
    """What the project reads and does not make: landing files, topics, and tables of others."""
    specs = {}
    for node in graph.nodes:
        for source in node.sources:
            key = source_key(node, source)
            specs[key] = dagster.AssetSpec(
                key, group_name="sources", kinds={node.kind}, metadata={"frazil/source": source}
            )
    for table in graph.external:
        specs[asset_key(table)] = dagster.AssetSpec(
            asset_key(table), group_name="sources", kinds={"iceberg"}, metadata={"dagster/table_name": table}
        )
    return list(specs.values())


def asset_key(table: str) -> dagster.AssetKey:
    """The key of a table's asset: the parts of its name."""
    return dagster.AssetKey(table.split("."))


def table_of(key: dagster.AssetKey) -> str:
    """The table of an asset."""
    return ".".join(key.path)


def source_key(node: Node, source: str) -> dagster.AssetKey:
    """The key of what a pipeline reads and is no table: `file/landing_sales_csv`."""
    return dagster.AssetKey([node.kind, _word(source)])


def commands(nodes: Sequence[Node]) -> list[list[str]]:
    """The names that each command of `frazil run` gets: every topic by itself, then all others together.

    >>> from frazil.pipelines.graph import Node
    >>> commands([Node("load", "file", "raw.orders"), Node("gold.revenue", "model", "gold.revenue", ("raw.orders",))])
    [['load', 'gold.revenue']]
    """
    topics = [[node.name] for node in nodes if node.kind == "kafka"]
    others = [node.name for node in nodes if node.kind != "kafka"]
    return [*topics, *([others] if others else [])]


def run_command(command: Sequence[str], folder: Path, log: Any) -> list[Mapping[str, Any]]:
    """The results of a command; what it says on the way goes to the log of the run."""
    log.info("%s", " ".join(command[1:]))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines():
        log.info("%s", line)
    if done.returncode:
        raise dagster.Failure(
            _error(done.stderr) or done.stderr[-SHOWN_ERROR:] or f"exit code {done.returncode}",
            metadata={"exit_code": done.returncode, "command": " ".join(command[1:])},
        )
    document = json.loads(done.stdout)
    results: list[Mapping[str, Any]] = document.get("results", [document])
    return results


def describe_runs(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metadata of a table's materialisation: rows, snapshot, seconds, and the snapshots of the inputs. All of it is
    what the runs themselves have said: the table may have other rows by now, and those of an environment are not on
    main.
    """
    runs = list(results)
    committed = [run for run in runs if run.get("snapshot_id") is not None]
    metadata: dict[str, Any] = {"frazil/status": "committed" if committed else "unchanged"}
    if committed:
        metadata |= {
            "dagster/row_count_written": sum(run["rows"] for run in committed),
            "frazil/snapshot_id": str(committed[-1]["snapshot_id"]),
            "frazil/seconds": round(sum(run["seconds"] for run in committed), 3),
            "frazil/run_id": ", ".join(run["run_id"] for run in committed),
            "frazil/quarantined": sum(run["quarantined"] for run in committed),
        }
    if inputs := {name: at for run in committed for name, at in run.get("inputs", {}).items()}:
        shown = {name: None if at is None else str(at) for name, at in inputs.items()}  # 63 bits: too many for a page
        metadata["frazil/input_snapshots"] = dagster.MetadataValue.json(shown)
    return metadata


def _filled(graph: Graph) -> list[str]:
    return list(dict.fromkeys(node.target for node in graph.nodes))


def _error(stderr: str) -> str:
    """The error of a command with --output json: the last line that it says.

    >>> _error('{"error": {"message": "no table", "hint": "frazil apply"}}')
    'no table (frazil apply)'
    """
    try:
        error = json.loads(stderr.splitlines()[-1])["error"]
    except (ValueError, LookupError, TypeError):
        return ""
    hint = error.get("hint")
    return f"{error.get('message', '')}{f' ({hint})' if hint else ''}"


def _word(text: str) -> str:
    """
    >>> _word("landing/*.csv"), _word("gold")
    ('landing_csv', 'gold')
    """
    return re.sub(r"\W+", "_", text).strip("_")
