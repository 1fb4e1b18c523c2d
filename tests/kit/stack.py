"""A stack of servers in a folder of its own, on free ports, driven by the command line as a user drives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from frazil import processes
from frazil.config import Settings, load_settings
from frazil.services import ports

NAMES = ("catalog", "object_store", "postgres", "kafka", "trino")


@dataclass(frozen=True)
class Project:
    """A user's folder with a `frazil.toml` of free ports, and the command line run in it as a user would."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)  # of its commands, beyond that of the tests

    @property
    def settings(self) -> Settings:
        return load_settings(folder=self.folder, flags={"stack.folder": str(self.folder / ".frazil")})

    def frazil(
        self, *arguments: str, check: bool = True, prefix: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        command, environment = self.command(*arguments, prefix=prefix), {**os.environ, **self.environment}
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def command(self, *arguments: str, prefix: tuple[str, ...] = ()) -> list[str]:
        return [*prefix, sys.executable, "-m", "frazil", *arguments]

    def status(self, *, prefix: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
        rows = json.loads(self.frazil("status", "--output", "json", prefix=prefix).stdout)
        return {row["service"]: row for row in rows}

    def processes(self) -> list[int]:
        """Every process that was started for a service of this stack."""
        return [
            process.pid
            for name in (*NAMES, "spark")
            for process in processes.marked(self.folder / ".frazil" / name.replace("_", "-"))
        ]


def make_project(folder: Path, **environment: str) -> Project:
    folder.mkdir(parents=True, exist_ok=True)
    chosen: list[int] = []
    for _ in NAMES:
        chosen.append(ports.free_port(avoid=chosen))
    lines = [f"{name} = {port}" for name, port in zip(NAMES, chosen, strict=True)]
    (folder / "frazil.toml").write_text("[stack.ports]\n" + "\n".join(lines) + "\n")
    return Project(folder, environment)


def keep_logs(project: Project) -> None:
    """What the servers said stays in pytest's folder of this run, for debugging a failure."""
    for log in project.folder.glob(".frazil/*/server.log"):
        shutil.copy(log, project.folder / f"{log.parent.name}.log")


# An ordinary user. The tests may run as root with Python under root's private home: the capability lets the user read,
# and only that.
AS_USER: tuple[str, ...] = ()
USER_ID = os.getuid()
if os.geteuid() == 0:
    USER_ID = 65534
    AS_USER = (
        *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"),
        *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "env", "HOME=/tmp"),
    )
