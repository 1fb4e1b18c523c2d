"""`frazil submit`: what it would do, what it refuses, and how the driver is reached."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil.cli.main import cli
from frazil.config import load_settings
from frazil.errors import PipelineError
from frazil.services import ports
from frazil.spark.pack import Pack
from frazil.spark.submit import ERRAND, Errand, Submission, plan_submission, run_submission, spark_home
from tests.kit.raising import raises

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/sales"
SECRET = "hunter2-of-submit"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "sales", ignore=shutil.ignore_patterns(".frazil", "landing", "__pycache__"))
    monkeypatch.chdir(tmp_path / "sales")
    return tmp_path / "sales"


def test_a_dry_run_shows_the_command_and_no_secret(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_CATALOG__TOKEN", SECRET)
    flags = ["--set", f"spark.conf.spark.my.password={SECRET}", "--set", "spark.conf.spark.sql.shuffle.partitions=7"]
    shown = CliRunner().invoke(
        cli, [*flags, "submit", "daily_sales", "--master", "local[2]", "--dry-run"], catch_exceptions=False
    )
    assert shown.exit_code == 0, shown.output
    assert "daily_sales: would be submitted to local[2]" in shown.output
    assert "2 modules in project-" in shown.output
    assert "catalog.token, spark.conf.spark.my.password: not on the command line" in shown.output
    assert "--conf spark.sql.shuffle.partitions=7" in shown.output
    assert SECRET not in shown.output


def test_the_driver_gets_all_flags_and_its_command_line_none_that_is_secret(project: Path) -> None:
    settings = load_settings(
        flags={"catalog.token": SECRET, "s3.endpoint": "http://127.0.0.1:1"}, folder=project, environ={}
    )
    arguments = ["--set", f"catalog.token={SECRET}", "run", "daily_sales"]
    plan = plan_submission(settings, project, arguments=arguments, app_name="x", jars=())
    assert plan.argv[0] == str(spark_home() / "bin" / "spark-submit")
    assert not [part for part in plan.argv if SECRET in part or part.startswith("spark.sql.catalog.")]
    assert SECRET not in repr(plan)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "declares no pipeline 'nothing'; it declares: daily_sales, daily_customers"),
        (["daily_sales", "--master", "spark://127.0.0.1"], "expected spark://HOST:PORT"),
        (["daily_sales", "--interval", "3"], "--interval goes with --stream"),
    ],
)
def test_what_cannot_be_submitted_is_said_before_anything_is_begun(
    project: Path, arguments: list[str], message: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "submit", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert message in done.stderr


def test_a_folder_without_a_project_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "frazil", "submit", "x"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, f"error: no lakehouse.py in {tmp_path}")


def test_a_master_that_is_not_there_ends_the_command_in_a_moment(project: Path) -> None:
    master = f"spark://127.0.0.1:{ports.free_port()}"
    command = [sys.executable, "-m", "frazil", "submit", "daily_sales", "--master", master]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert f"error: no Spark master answers at {master}" in done.stderr


# --- the driver, with a program in the place of spark-submit that starts it as spark-submit would --------------------


def submission(folder: Path, code: str) -> Submission:
    """One that runs a Python program, which has the driver's errand in its environment."""
    (folder / "lakehouse.py").touch()
    pack = Pack(folder / "lakehouse.py", ("lakehouse.py",))
    driver = (
        "import json, os, pathlib, sys, time, signal\nerrand = json.loads(os.environ['"
        + ERRAND
        + "'])\n"
        + textwrap.dedent(code)
    )
    return Submission(
        "local",
        [sys.executable, "-c", driver],
        {},
        ["run", "x"],
        folder,
        pack,
        [],
        sys.executable,
        folder / "submit.log",
        [],
    )


BEGIN = "pathlib.Path(errand['pid_file']).write_text(str(os.getpid()))\n"


def test_the_exit_code_is_the_drivers(tmp_path: Path) -> None:
    assert run_submission(submission(tmp_path, BEGIN + "sys.exit(3)")) == 3


def test_spark_submit_that_ends_before_the_driver_begins_shows_what_it_said(tmp_path: Path) -> None:
    with raises(PipelineError, got=1, reason=re.compile("Exception in thread: no such class")):
        run_submission(
            submission(tmp_path, "print('Exception in thread: no such class', file=sys.stderr); sys.exit(1)")
        )


def test_as_json_stdout_is_the_drivers_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A program in the place of the JVM, which makes one stream of the driver's two."""
    code = """
        import subprocess
        driver = "import frazil.cli; frazil.cli.main = lambda: print('{}', *sys.argv[1:]) or sys.exit(print('a log', file=sys.stderr) or 4); "
        driver = "import sys; " + driver + "from frazil.cli.submitted import main; main()"
        sys.exit(subprocess.run([sys.executable, "-c", driver], stderr=subprocess.STDOUT).returncode)
    """  # noqa: E501
    assert run_submission(submission(tmp_path, code), as_json=True) == 4
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("{} run x\n", "a log\n")


def test_a_signal_reaches_the_driver_which_ends_in_its_own_way(tmp_path: Path) -> None:
    code = (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        + BEGIN
        + "os.kill(errand['parent'], signal.SIGTERM)\ntime.sleep(60)"
    )
    assert run_submission(submission(tmp_path, code)) == 7


def test_a_driver_whose_command_was_killed_ends_too(tmp_path: Path) -> None:
    errand = Errand(
        ["doctor"],
        str(tmp_path / "pid"),
        parent=os.getpid(),
        parent_started="another process of this pid, which is gone",
    )
    code = (
        "import time; from frazil import cli; from frazil.cli import submitted; cli.main = lambda: "
        "time.sleep(300); submitted.main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, ERRAND: errand.to_json()},
        timeout=240,
        check=False,
        capture_output=True,
    )
    assert (ended.returncode, ended.stderr) == (1, b"")
