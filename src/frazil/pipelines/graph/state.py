"""The state of pipelines and models: whether each is up to date, why not, since when, and how its last run ended.

Nothing is read but metadata, listings of landing files, ledgers and the tables of runs; Spark does not start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from frazil.errors import PipelineError
from frazil.pipelines import Pipeline, read_runs
from frazil.pipelines.models import Model, Outlook, derivation_of, foresee, in_order
from frazil.pipelines.sources import FileSource, KafkaSource
from frazil.units import age, count, size

if TYPE_CHECKING:
    from frazil.client import FrazilCatalog
    from frazil.pipelines.graph.nodes import Graph
    from frazil.pipelines.sources import SourceFile

Status = Literal["up to date", "out of date", "unknown", "fails"]
SHOWN_OF_RUN = ("run_id", "status", "started_at", "seconds", "rows", "quarantined", "snapshot_id", "error")


@dataclass(frozen=True)
class NodeState:
    """The state of a pipeline or model at `now_ms`. `waiting_ms` says when what it has not read arrived, the oldest
    first: new files, and commits to its inputs or to what these are made from.
    """

    status: Status
    reason: str
    now_ms: int
    waiting_ms: tuple[int, ...] = ()
    last_run: Mapping[str, Any] | None = None

    @property
    def lag_ms(self) -> int | None:
        """For how long the oldest of what is waiting has been there."""
        return max(0, self.now_ms - self.waiting_ms[0]) if self.waiting_ms else None

    def lines(self) -> list[str]:
        """The state for people.

        >>> NodeState("out of date", "silver.orders: 3 rows were appended", 7_200_000, (0,)).lines()
        ['out of date for 2 hours: silver.orders: 3 rows were appended', 'has not run yet']
        """
        since = "" if self.lag_ms is None else f" for {age(self.lag_ms)}"
        return [f"{self.status}{since}: {self.reason}", self._last_run()]

    def _last_run(self) -> str:
        if self.last_run is None:
            return "has not run yet"
        run = self.last_run
        began_ms = int(run["started_at"].timestamp() * 1000)
        ended = f"{count(run['rows'], 'row')} in {run['seconds']:.1f} s"
        if run["error"]:
            ended = f"failed: {run['error'].splitlines()[0]}"
        return f"last run {age(max(0, self.now_ms - began_ms))} ago: {ended}"

    def as_json(self) -> dict[str, Any]:
        """The state for programs: docs/cli-json.md has its shape."""
        return {
            "status": self.status,
            "reason": self.reason,
            "lag_ms": self.lag_ms,
            "oldest_waiting_ms": self.waiting_ms[0] if self.waiting_ms else None,
            "newest_waiting_ms": self.waiting_ms[-1] if self.waiting_ms else None,
            "last_run": {name: self.last_run[name] for name in SHOWN_OF_RUN} if self.last_run else None,
        }


@dataclass
class StateFinder:
    """Finds the states of all nodes of a graph, on main or in an environment. `io_properties` say how landing files on
    S3 are reached.
    """

    graph: Graph
    declared: Mapping[str, Pipeline | Model]
    catalog: FrazilCatalog
    folder: Path
    now_ms: int
    env: str | None = None
    io_properties: Mapping[str, str] | None = None
    _states: dict[str, NodeState] = field(default_factory=dict)

    def find(self) -> dict[str, NodeState]:
        """The state of each node, by its name."""
        derived = []
        for node in self.graph.nodes:
            each = self.declared[node.name]
            if isinstance(each, Pipeline) and not each.inputs:
                self._states[node.name] = self._of_load(each)
            else:
                derived.append(derivation_of(each))
        changing = {node.target for node in self.graph.nodes if self._is_out_of_date(node.name)}
        for outlook in foresee(in_order(derived), self.catalog, env=self.env, changing=changing):
            self._states[outlook.derivation.name] = self._of_outlook(outlook)
        return {node.name: self._states[node.name] for node in self.graph.nodes}

    def _is_out_of_date(self, name: str) -> bool:
        return name in self._states and self._states[name].status == "out of date"

    def _state(self, status: Status, reason: str, waiting_ms: Sequence[int], name: str, table: str) -> NodeState:
        runs = read_runs(table, self.catalog, pipeline=name, env=self.env)
        return NodeState(status, reason, self.now_ms, tuple(sorted(waiting_ms)), runs[0] if runs else None)

    # --- loads -------------------------------------------------------------------------------------------------------

    def _of_load(self, pipeline: Pipeline) -> NodeState:
        from frazil.pipelines.batch import plan_run

        names = (pipeline.name, pipeline.target.name)
        if isinstance(pipeline.source, KafkaSource):
            reason = f"what waits in Kafka is not looked at; frazil run {pipeline.name} --dry-run does"
            return self._state("unknown", reason, (), *names)
        assert isinstance(pipeline.source, FileSource)
        try:
            listed = pipeline.files.list_files(self.folder, self.io_properties or self.catalog.properties)
            arrived = plan_run(pipeline, self.catalog, self.folder, listed, env=self.env).arrived
        except PipelineError as exc:
            return NodeState("fails", exc.message, self.now_ms)
        if arrived.changed and pipeline.on_change == "error":
            return self._state("fails", f"{arrived.changed[0].path} was loaded before with other content", (), *names)
        if not arrived.files:
            return self._state("up to date", "no new files", (), *names)
        total = size(sum(file.size for file in arrived.files))
        reason = f"{count(len(arrived.files), 'new file')} ({total})"
        return self._state("out of date", reason, [self._arrival(file) for file in _local(arrived.files)], *names)

    def _arrival(self, file: SourceFile) -> int:
        """When a file was written: its tag begins with the time in nanoseconds."""
        return int(file.tag.partition(" ")[0]) // 1_000_000

    # --- models and pipelines over tables ----------------------------------------------------------------------------

    def _of_outlook(self, outlook: Outlook) -> NodeState:
        derivation, reason = outlook.derivation, outlook.decision.reason
        times = [*outlook.waiting_ms, *(time for node in self._makers(outlook) for time in node.waiting_ms)]
        state = self._state("up to date", reason, times, derivation.name, derivation.target)
        if outlook.error is not None:
            return NodeState("fails", reason, self.now_ms, state.waiting_ms, state.last_run)
        if not outlook.does_something:
            return NodeState("up to date", reason, self.now_ms, (), state.last_run)
        if outlook.waits_for:
            are = "is" if len(outlook.waits_for) == 1 else "are"
            reason = f"{', '.join(outlook.waits_for)} {are} out of date"
        status: Status = "out of date" if outlook.is_sure or state.last_run is None else "unknown"
        return NodeState(status, reason, self.now_ms, state.waiting_ms, state.last_run)

    def _makers(self, outlook: Outlook) -> list[NodeState]:
        """The states of what makes the inputs and is out of date itself."""
        names = [node.name for table in outlook.derivation.tables for node in self.graph.makers(table)]
        return [self._states[name] for name in dict.fromkeys(names) if self._is_out_of_date(name)]


def _local(files: Sequence[SourceFile]) -> list[SourceFile]:
    """The files of this machine; a listing of objects does not tell when they were written."""
    return [file for file in files if "://" not in file.path]
