"""`stream`: a pipeline of `lakehouse.py` that keeps going; and `run`, where its source is Kafka."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from frazil.cli.complete import complete_pipelines
from frazil.cli.context import Context
from frazil.cli.ownership import adopt_option, ask_pipeline
from frazil.cli.show import OUTPUT, echo
from frazil.cli.spark import pipeline_session
from frazil.openlineage import lineage_events
from frazil.project import Project, load_project
from frazil.protocol import QUARANTINE_SUFFIX

if TYPE_CHECKING:
    from frazil.pipelines import Pipeline
    from frazil.pipelines.stream import StreamProgress


@click.command()
@click.argument("name", shell_complete=complete_pipelines)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between micro-batches.",
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Answer /metrics and /progress on 127.0.0.1."
)
@adopt_option
@OUTPUT
@click.pass_obj
def stream(context: Context, name: str, interval: float, metrics_port: int | None, adopt: bool, output: str) -> None:
    """Keep a pipeline running, one commit per micro-batch.

    With --output json, stdout has one line per micro-batch, and one at the end. Ctrl-C or SIGTERM: the batch under way
    is finished, and the stream stops.
    """
    project = load_project(Path.cwd())
    pipeline = project.pipeline(name)
    click.get_current_context().with_resource(lineage_events(project, lambda: context.catalog))
    progress = _run(context, project, pipeline, once=False, adopt=adopt, interval=interval, metrics_port=metrics_port)
    if output == "json":
        echo(json.dumps({"event": "end", **as_json(progress)}))
    else:
        echo(describe(progress))


def run_once(context: Context, project: Project, pipeline: Pipeline, *, adopt: bool) -> tuple[str, dict[str, Any]]:
    """Reads everything that is in the topics now; gives what to print of it, and the document."""
    progress = _run(context, project, pipeline, once=True, adopt=adopt)
    status = "unchanged" if progress.snapshot_id is None else "committed"
    return describe(progress), {"dry_run": False, "status": status, **as_json(progress)}


def as_json(progress: StreamProgress) -> dict[str, Any]:
    """What a stream has done since it began, for programs: docs/cli-json.md has its shape."""
    values: dict[str, Any] = json.loads(progress.to_json())
    return values


def show_waiting(context: Context, project: Project, pipeline: Pipeline) -> tuple[str, dict[str, Any]]:
    """Which offsets a run would read: what to print of it, and the document."""
    from frazil.pipelines.stream import waiting

    with pipeline_session(context, project, pipeline) as spark:
        lag = waiting(pipeline, spark=spark, catalog=context.catalog)
    total = sum(end - start for start, end in lag.values())
    pending = [{"partition": name, "start": start, "end": end} for name, (start, end) in lag.items()]
    names = {"pipeline": pipeline.name, "table": pipeline.target.name}
    lines = [f"{pipeline.name}: would read {total:,} messages at most into {pipeline.target.name}"]
    lines += [f"  {partition:<24} offsets {start:,} to {end - 1:,}" for partition, (start, end) in lag.items()]
    document = {**names, "dry_run": True, "status": "pending", "messages": total, "pending": pending}
    return "\n".join(lines), document


def _run(
    context: Context,
    project: Project,
    pipeline: Pipeline,
    *,
    once: bool,
    adopt: bool,
    interval: float = 10.0,
    metrics_port: int | None = None,
) -> StreamProgress:
    from frazil.pipelines.sources import KafkaSource
    from frazil.pipelines.stream import StreamOptions, StreamProgress, run_stream, serving_metrics, watch_files

    catalog = context.announce()
    owner, adopts = ask_pipeline(context, project.folder, pipeline, adopt=adopt)
    progress, stop = StreamProgress(pipeline.name, pipeline.target.name), threading.Event()
    state = context.settings.stack.folder / "streams" / pipeline.name
    state.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        spark = stack.enter_context(pipeline_session(context, project, pipeline))
        show = stack.enter_context(_showing(progress, context, lines=not once))
        if metrics_port is not None:
            port = stack.enter_context(serving_metrics(progress, metrics_port))
            context.talk.note(f"{pipeline.name}: metrics at http://127.0.0.1:{port}/metrics")
        stack.enter_context(_stopping(stop, pipeline.name, context))

        def on_change(now: StreamProgress) -> None:
            now.save(state / "progress.json")
            show(now)

        work = run_stream if isinstance(pipeline.source, KafkaSource) else watch_files
        options = StreamOptions(state, once, interval, on_change, stop, owner=owner, adopt=adopts)
        work(pipeline, spark=spark, catalog=catalog, folder=project.folder, options=options, progress=progress)
    for loss in progress.accepted_losses:
        context.talk.note(f"{pipeline.name}: accepted: {loss}")
    return progress


@contextmanager
def _showing(progress: StreamProgress, context: Context, *, lines: bool) -> Iterator[Callable[[StreamProgress], None]]:
    """A line that is kept up to date on a terminal; elsewhere, a line per micro-batch, as JSON on stdout if `lines`."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal and not context.talk.json:
        with console.status(f"{progress.pipeline}: waiting for messages") as status:
            yield lambda now: status.update(now.line() if now.batches else f"{now.pipeline}: waiting for messages")
        return
    shown_batches = 0

    def show(now: StreamProgress) -> None:
        nonlocal shown_batches
        if now.batches > shown_batches:
            shown_batches = now.batches
            if context.talk.json and lines:
                echo(json.dumps({"event": "batch", **as_json(now)}))
            context.talk.note(now.line())

    yield show


@contextmanager
def _stopping(stop: threading.Event, name: str, context: Context) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM asks to stop after the batch under way; the second Ctrl-C does not wait."""

    def ask(number: int, _: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()
        context.talk.note(f"{name}: stops when the batch under way is in")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def describe(progress: StreamProgress) -> str:
    """What a stream has done, in a line.

    >>> from frazil.pipelines.stream.progress import StreamProgress
    >>> describe(StreamProgress("uplink", "l.uplink", 2, 1200, 3, snapshot_id=7))
    'uplink: 1,200 rows in 2 batches are in l.uplink, 3 in l.uplink__quarantine, snapshot 7'
    >>> describe(StreamProgress("uplink", "l.uplink"))
    'uplink: nothing new; l.uplink is unchanged'
    >>> describe(StreamProgress("uplink", "l.uplink", batches=3))
    'uplink: nothing new; l.uplink is unchanged'
    >>> describe(StreamProgress("crm", "l.crm", 1, 3, snapshot_id=7, merged={"inserted": 1, "updated": 2, "deleted": 4}))
    'crm: 1 inserted, 2 updated, 4 deleted in 1 batch of changes to l.crm, snapshot 7'
    """  # noqa: E501
    if progress.snapshot_id is None:  # batches without a row, or rows that were in already
        return f"{progress.pipeline}: nothing new; {progress.table} is unchanged"
    batches = "1 batch" if progress.batches == 1 else f"{progress.batches:,} batches"
    if progress.merged or progress.uncounted:
        batches += " of changes to"
    else:
        batches += " are in"
    quarantined = f", {progress.quarantined:,} in {progress.table}{QUARANTINE_SUFFIX}" if progress.quarantined else ""
    return (
        f"{progress.pipeline}: {progress.outcome()} in {batches} {progress.table}{quarantined}, snapshot "
        f"{progress.snapshot_id}"
    )
