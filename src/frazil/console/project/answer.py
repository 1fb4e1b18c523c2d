"""Answers a question about a project: `python -m frazil.console.project.answer FOLDER`, with the question as JSON on
standard input. The program that the server starts for it; project code runs here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from frazil.console.project.plan import make_plan
from frazil.errors import ChangeRefused, DeclarationError, FrazilError, ProjectError, VectorError
from frazil.processes import write_no_core
from frazil.project import load_project

if TYPE_CHECKING:
    from frazil.config import Settings
    from frazil.pipelines import Pipeline
    from frazil.pipelines.models import Model

MOST_CHARACTERS = 4_000  # of an error
# Properties of file access. All others are of the operator's own connection to a catalog: a credential or a header
# would win over the caller's token, an address over this server's.
OF_FILES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.", "py-io-impl")
Json = dict[str, Any]


def describe(folder: Path, _question: Mapping[str, Any]) -> Json:
    """What the project declares: its graph as `frazil graph --columns --output json` has it, and its tables."""
    from frazil.config import load_settings
    from frazil.ownership import project_name
    from frazil.pipelines.graph import as_json, trace_columns

    project = load_project(folder)
    graph = project.graph
    lineage = trace_columns(graph, project.models, project.tables) if project.models else {}
    targets = {pipeline.target.name: pipeline.target for pipeline in project.pipelines}
    tables = targets | {table.name: table for table in project.tables}
    return {
        "name": project_name(load_settings(folder=folder), folder),
        "graph": as_json(graph, None, lineage),
        "tables": {name: [column.name for column in table.columns] for name, table in tables.items()},
        "checks": {name: list(table.checks) for name, table in tables.items()}
        | {model.name: list(model.checks) for model in project.models},
    }


def find_states(folder: Path, question: Mapping[str, Any]) -> Json:
    """The states of the nodes in question, as `frazil graph --state` has them; no Spark starts."""
    from frazil.client import catalog_properties
    from frazil.lake import open_catalog
    from frazil.pipelines.graph import StateFinder

    project, settings, wanted = load_project(folder), _settings(folder, question), set(question["nodes"])
    every: list[Pipeline | Model] = [*project.pipelines, *project.models]
    graph = project.graph
    part = graph.part(node for node in graph.nodes if node.name in wanted)
    declared, now_ms = {each.name: each for each in every}, int(time.time() * 1000)
    finder = StateFinder(
        part, declared, open_catalog(settings), folder, now_ms, io_properties=catalog_properties(settings)
    )
    return {"states": {name: state.as_json() for name, state in finder.find().items()}}


def plan(folder: Path, question: Mapping[str, Any]) -> Json:
    """The plan for the tables in question."""
    return make_plan(folder, _settings(folder, question), set(question["tables"]))


def embed(folder: Path, question: Mapping[str, Any]) -> Json:
    """Vectors of texts, by the embedder that is declared for a column; None if there is none."""
    from frazil.lake import find_embedder
    from frazil.vector import embed_texts

    table, column = question["table"], question["column"]
    try:
        embedder = find_embedder(folder, table, column)
    except VectorError:
        return {"vectors": None}
    return {"vectors": embed_texts(question["texts"], embedder, table=table, column=column).tolist()}


def _settings(folder: Path, question: Mapping[str, Any]) -> Settings:
    """The project's settings, with this server as the catalog and the caller's token, and no other way to connect."""
    from frazil.config import load_settings

    flags = {f"catalog.{name}": question[name] for name in ("uri", "warehouse", "token") if question.get(name)}
    settings = load_settings(flags=flags, folder=folder)
    properties = {name: value for name, value in settings.catalog.properties.items() if name.startswith(OF_FILES)}
    return settings.model_copy(update={"catalog": settings.catalog.model_copy(update={"properties": properties})})


QUESTIONS: Mapping[str, Callable[[Path, Mapping[str, Any]], Json]] = {
    "describe": describe,
    "states": find_states,
    "plan": plan,
    "embed": embed,
}


def answer(folder: Path, question: Mapping[str, Any]) -> Json:
    """The answer, or the error's text."""
    try:
        return QUESTIONS[question["ask"]](folder, question)
    except FrazilError as exc:
        text = f"{exc.message}\n{exc.hint}" if exc.hint else exc.message
        return {"error": text[:MOST_CHARACTERS], "of_code": _is_of_code(exc)}
    except Exception as exc:  # project code may raise anything
        return {"error": f"{type(exc).__name__}: {exc}"[:MOST_CHARACTERS], "of_code": True}


def _is_of_code(error: FrazilError) -> bool:
    """Whether an error is about the project's files, or by its embedder; a refused change is about a table."""
    return isinstance(error, ProjectError | DeclarationError | VectorError) and not isinstance(error, ChangeRefused)


def main() -> None:
    """Answers; what project code prints goes to standard error, for standard output is the answer's."""
    write_no_core()
    folder, question = Path(sys.argv[1]), orjson.loads(sys.stdin.buffer.read())
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)
        output.write(orjson.dumps(answer(folder, question), default=str))


if __name__ == "__main__":
    main()
