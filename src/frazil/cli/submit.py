"""`submit`: a pipeline of `lakehouse.py` through `spark-submit`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from frazil.cli.complete import complete_pipelines
from frazil.cli.context import Context
from frazil.cli.ownership import adopt_option
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.cli.spark import kafka_jars
from frazil.project import load_project

if TYPE_CHECKING:
    from frazil.spark import Submission


@click.command()
@click.argument("name", shell_complete=complete_pipelines)
@click.option(
    "--master",
    metavar="URL",
    help="Where to: spark://HOST:PORT, yarn, k8s://..., local[*]; else the setting spark.master.",
)
@click.option("--stream", is_flag=True, help="Keep going, as frazil stream does; else once, as frazil run does.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="With --stream: seconds between micro-batches.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and submit nothing.")
@adopt_option
@OUTPUT
@click.pass_obj
def submit(
    context: Context,
    name: str,
    master: str | None,
    stream: bool,
    interval: float | None,
    dry_run: bool,
    adopt: bool,
    output: str,
) -> None:
    """Run a pipeline on a Spark cluster with spark-submit.

    Packs the project, submits it and shows what the driver prints. The exit code is the run's. Ctrl-C and SIGTERM
    go to the driver.
    """
    from frazil.spark import describe, plan_submission, run_submission

    if interval and not stream:
        raise click.UsageError("--interval goes with --stream.")
    folder = Path.cwd()
    pipeline = load_project(folder).pipeline(name)
    flags = context.overrides | ({"spark.master": master} if master else {})
    settings = Context(context.profile, flags).settings
    arguments = driver_arguments(context.profile, flags, name, stream=stream, interval=interval, adopt=adopt)
    plan = plan_submission(
        settings,
        folder,
        arguments=[*arguments, "--output", "json"] if output == "json" else arguments,
        app_name=f"frazil {name}",
        jars=kafka_jars(pipeline),
    )
    if output == "json":
        if dry_run:
            print_json({"pipeline": name, "stream": stream, **as_json(plan)})
            return
        sys.exit(run_submission(plan, as_json=True))
    echo(f"{name}: {'would be submitted' if dry_run else 'submitting'} to {plan.master}", err=not dry_run)
    for word, text in describe(plan):
        echo(f"  {word:<10} {text}", err=not dry_run)
    if dry_run:
        echo(f"  {'command':<10} {shlex.join(plan.argv)}")
    else:
        sys.exit(run_submission(plan))


def as_json(plan: Submission) -> dict[str, object]:
    """What would be submitted, for programs: docs/cli-json.md has its shape."""
    return {
        "master": plan.master,
        "project": {"path": str(plan.pack.path), "files": list(plan.pack.files), "bytes": plan.pack.bytes},
        "python": plan.python,
        "jars": [str(jar) for jar in plan.jars],
        "log": str(plan.log),
        "secrets": list(plan.kept_back),
        "command": list(plan.argv),
    }


def driver_arguments(
    profile: str | None, flags: dict[str, str], name: str, *, stream: bool, interval: float | None, adopt: bool = False
) -> list[str]:
    """What the driver calls `frazil` with.

    >>> driver_arguments("prod", {"spark.master": "yarn"}, "uplink", stream=True, interval=5.0)
    ['--profile', 'prod', '--set', 'spark.master=yarn', 'stream', 'uplink', '--interval', '5.0']
    """
    chosen = ["--profile", profile] if profile else []
    arguments = [part for key, value in flags.items() for part in ("--set", f"{key}={value}")]
    options = [*(["--interval", str(interval)] if interval else []), *(["--adopt"] if adopt else [])]
    return [*chosen, *arguments, "stream" if stream else "run", name, *options]
