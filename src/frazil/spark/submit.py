"""A pipeline handed to `spark-submit`: the project packed, the command made, the driver watched until it ends.

`spark-submit` starts a JVM, which starts `submitted.py`, which is `frazil run` or `frazil stream` as ever. What the
command line shows, every user of the machine can read; so settings that may hold a secret go neither there nor into a
file: the driver reads them again from where they came, and what was given by flags is in its environment.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from frazil import processes
from frazil.config import Settings, is_secret
from frazil.errors import MissingExtra, PipelineError
from frazil.spark.cluster import check_place, executor_python, is_local
from frazil.spark.pack import Pack, pack_project
from frazil.spark.session import is_private, session_conf, session_environment

ERRAND = "FRAZIL_SUBMIT"  # the variable that tells the driver what to do
SCRIPT = Path(__file__).parent.parent / "cli" / "submitted.py"
LOG_LINES = 12
COPY_SECONDS = 0.2
STDERR = 2


@dataclass(frozen=True)
class Submission:
    """All that submitting takes: decided first, shown, then done."""

    master: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    arguments: Sequence[str] = field(repr=False)  # of `frazil`, in the driver
    folder: Path
    pack: Pack
    jars: Sequence[Path]
    python: str
    log: Path
    kept_back: Sequence[str]  # settings that the command line does not have


def plan_submission(
    settings: Settings, folder: Path, *, arguments: Sequence[str], app_name: str, jars: Sequence[str]
) -> Submission:
    """What would be submitted to run `frazil ARGUMENTS` in the folder of a project. Fetches jars, and writes the
    project's zip.
    """
    check_place(settings.spark)
    # spark-submit would log every task; `frazil run` has the level of Spark's shell.
    conf = {"spark.log.level": "WARN", **session_conf(settings, jars), "spark.app.name": app_name}
    pack = pack_project(folder, settings.stack.folder.absolute() / "spark")
    shown = {key: value for key, value in conf.items() if not is_private(key)}
    options = [part for key, value in sorted(shown.items()) for part in ("--conf", f"{key}={value}")]
    home = spark_home()
    return Submission(
        settings.spark.master,
        [str(home / "bin" / "spark-submit"), *options, "--py-files", str(pack.path), str(SCRIPT)],
        # Another Spark's home would take the place of the pinned one.
        session_environment(settings) | {"SPARK_HOME": str(home)},
        arguments,
        folder,
        pack,
        [Path(path) for path in conf["spark.jars"].split(",")],
        executor_python(settings.spark, sys.executable),
        settings.stack.folder.absolute() / "spark" / "submit.log",
        secret_keys(settings, conf),
    )


def spark_home() -> Path:
    """The Spark inside the installed PySpark."""
    spec = find_spec("pyspark")
    if spec is None or not spec.origin:
        raise MissingExtra("pyspark", extra="spark")
    return Path(spec.origin).parent


def secret_keys(settings: Settings, conf: Mapping[str, str]) -> list[str]:
    """The names of secrets that the driver will have, and that its command line must not."""
    own = {
        "catalog.token": settings.catalog.token,
        "s3.access_key_id": settings.s3.access_key_id,
        "s3.secret_access_key": settings.s3.secret_access_key,
    }
    keys = [key for key in conf if is_secret(key) and not key.startswith(f"spark.sql.catalog.{settings.catalog.name}")]
    properties = [f"catalog.properties.{key}" for key in settings.catalog.properties if is_secret(key)]
    return [*(key for key, value in own.items() if value), *properties, *(f"spark.conf.{key}" for key in keys)]


def describe(plan: Submission) -> list[tuple[str, str]]:
    """The submission in lines for people: a word, and what there is to say."""
    names = ", ".join(plan.pack.files[:5]) + (
        f" and {len(plan.pack.files) - 5} more" if len(plan.pack.files) > 5 else ""
    )
    sent = sum(path.stat().st_size for path in plan.jars if path.exists())
    local = is_local(plan.master)
    where = (
        "on this machine"
        if local
        else "out of the packed environment"
        if plan.python.startswith("./")
        else "on every worker"
    )
    lines = [
        ("project", f"{len(plan.pack.files)} modules in {plan.pack.path.name} ({plan.pack.bytes:,} bytes): {names}"),
        ("python", f"{plan.python} {where}"),
        (
            "jars",
            f"{len(plan.jars)} ({sent / 1e6:.0f} MB)" + ("" if local else ", which the driver sends to each executor"),
        ),
        ("driver", f"here; what Spark says goes to {plan.log}"),
    ]
    if plan.kept_back:
        lines.append(("secrets", f"{', '.join(plan.kept_back)}: not on the command line"))
    return lines


# --- doing it --------------------------------------------------------------------------------------------------------


def run_submission(plan: Submission, *, as_json: bool = False) -> int:
    """Submits, passes the driver's output on, and gives its exit code. Ctrl-C and SIGTERM reach the driver, which stops
    as ever.

    Spark makes one stream of the driver's stdout and stderr. With `as_json`, stdout gets the driver's stdout alone, and
    stderr the rest.
    """
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="frazil-submit-") as folder, plan.log.open("ab") as log:
        begun = Path(folder) / "pid"
        size = plan.log.stat().st_size
        output = Path(folder) / "stdout" if as_json else None
        errand = Errand(
            list(plan.arguments),
            str(begun),
            os.getpid(),
            processes.start_time(os.getpid()) or "",
            str(output) if output else "",
        )
        # In a session of its own: Ctrl-C would end the JVM, and the driver could not finish what it is at.
        with (
            subprocess.Popen(
                plan.argv,
                env={**os.environ, **plan.env, ERRAND: errand.to_json()},
                cwd=plan.folder,
                stdin=subprocess.DEVNULL,
                stdout=STDERR if as_json else None,
                stderr=log,
                start_new_session=True,
            ) as child,
            _passing_signals(child, begun),
        ):
            code = child.wait() if output is None else _wait_and_copy(child, output)
        if not begun.exists():
            said = _end_of(plan.log, size)
            raise PipelineError(
                f"spark-submit ended with {code} before the driver began:\n{said}",
                hint=f"all of it is in {plan.log}",
                got=code,
                reason=said,
            )
    return code


def _wait_and_copy(child: subprocess.Popen[bytes], output: Path) -> int:
    """Copies what the driver writes to a file to stdout until the child ends; gives its exit code."""
    output.touch()
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")  # a character may be there in part
    with output.open("rb") as source:
        code = None
        while code is None:
            code = child.poll()  # before the copy: what was written up to the end is copied
            sys.stdout.write(decoder.decode(source.read()))
            sys.stdout.flush()
            if code is None:
                time.sleep(COPY_SECONDS)
    return code


@dataclass(frozen=True)
class Errand:
    """What the driver gets: the arguments of `frazil`, where to leave its pid, and for whom it works."""

    arguments: list[str]
    pid_file: str
    parent: int
    parent_started: str
    output: str = ""  # a file that takes the driver's stdout

    def to_json(self) -> str:
        return json.dumps(self.__dict__)

    @classmethod
    def from_json(cls, text: str) -> Errand:
        """
        >>> errand = Errand(["run", "daily"], "/tmp/pid", 7, "x")
        >>> Errand.from_json(errand.to_json()) == errand
        True
        """
        return cls(**json.loads(text))


@contextlib.contextmanager
def _passing_signals(child: subprocess.Popen[bytes], pid_file: Path) -> Iterator[None]:
    """Signals go to the driver; before there is one, they end the submission."""

    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            try:
                os.kill(int(pid_file.read_text()), number)
            except (OSError, ValueError):
                os.killpg(child.pid, signal.SIGTERM)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_of(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").splitlines()
    telling = [line for line in lines if not line.lstrip().startswith("at ")]
    return "\n".join(f"    {line}" for line in telling[-LOG_LINES:])
