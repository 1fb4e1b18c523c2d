"""Coordinates resolved by the Ivy that ships inside PySpark: what it is asked, how it is run, and why it failed.

Ivy's own settings name the public repository, so no address appears here; a site's settings file replaces them.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from frazil.artifacts.cache import Work
from frazil.artifacts.java import Java
from frazil.errors import ConfigError, DownloadError, MissingExtra


@dataclass(frozen=True, order=True)
class Coordinate:
    """One artifact: `group:name:version[:classifier][@ext]`."""

    group: str
    name: str
    version: str
    classifier: str = ""
    ext: str = "jar"

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """
        >>> Coordinate.parse("org.apache.iceberg:iceberg-open-api:1.11.0:tests").classifier
        'tests'
        >>> str(Coordinate.parse("io.trino:trino-server:476@tar.gz"))
        'io.trino:trino-server:476@tar.gz'
        """
        body, _, ext = text.partition("@")
        parts = body.split(":")
        if len(parts) not in (3, 4) or not all(re.fullmatch(r"\w[\w.+-]*", part) for part in [*parts, ext or "jar"]):
            raise ConfigError(
                f"'{text}' is not a coordinate",
                hint="write group:name:version, then :classifier and @ext if need be",
                got=text,
            )
        return cls(parts[0], parts[1], parts[2], "".join(parts[3:]), ext or "jar")

    def __str__(self) -> str:
        classifier = f":{self.classifier}" if self.classifier else ""
        return f"{self.group}:{self.name}:{self.version}{classifier}{'' if self.ext == 'jar' else f'@{self.ext}'}"


def run_ivy(
    coordinates: Sequence[Coordinate], *, java: Java, work: Work, transitive: bool, settings: Path | None
) -> list[Path]:
    """The files that Ivy resolved, in its own cache below `work` (or where a site's settings keep them)."""
    folder = work.folder
    (folder / "ivy.xml").write_text(module_file(coordinates, transitive=transitive), encoding="utf-8")
    if settings is None and not transitive:
        settings = folder / "settings.xml"
        settings.write_text(_NO_POMS, encoding="utf-8")
    classpath, log = folder / "classpath.txt", folder / "ivy.log"
    classpath.unlink(missing_ok=True)
    options: list[str | Path] = ["-settings", settings] if settings else []
    options += ["-cache", folder / "ivy", "-ivy", folder / "ivy.xml", "-cachepath", classpath]
    command = [java.executable, "-Xmx256m", *_NO_EXTRAS, "-jar", ivy_jar(), *options]
    with log.open("wb") as output:
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=(work.lock,), check=False
        )
    if not classpath.exists():
        raise explain(log.read_text(encoding="utf-8", errors="replace"), coordinates, java=java, log=log)
    return [Path(part) for part in classpath.read_text(encoding="utf-8").strip().split(os.pathsep) if part]


# Ivy asks for the sources and the documentation of every module, unless this is disabled: three requests per module.
_NO_EXTRAS = ("-Divy.maven.lookup.sources=false", "-Divy.maven.lookup.javadoc=false")

# Without its POM an artifact needs two requests. With it, Trino's server walks all imported POMs: 170 s before the
# first byte.
_NO_POMS = """<ivysettings>
  <settings defaultResolver="default"/>
  <resolvers><ibiblio name="default" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


def ivy_jar() -> Path:
    """The Ivy jar inside the installed PySpark, found without importing it."""
    spec = find_spec("pyspark")
    folders = [Path(place) / "jars" for place in (spec.submodule_search_locations or [])] if spec else []
    jar = next((jar for folder in folders for jar in sorted(folder.glob("ivy-*.jar"))), None)
    if jar is None:
        raise MissingExtra("pyspark (for the Ivy inside it)", extra="stack")
    return jar


def module_file(coordinates: Sequence[Coordinate], *, transitive: bool) -> str:
    """The ivy.xml that depends on these coordinates; artifacts of one module share its dependency."""
    modules: dict[tuple[str, str, str], list[Coordinate]] = {}
    for c in coordinates:
        modules.setdefault((c.group, c.name, c.version), []).append(c)
    dependencies = "\n".join(_dependency(artifacts, transitive) for artifacts in modules.values())
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="frazil" module="fetch"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


def _dependency(artifacts: Sequence[Coordinate], transitive: bool) -> str:
    first = artifacts[0]
    head = f"org={quoteattr(first.group)} name={quoteattr(first.name)} rev={quoteattr(first.version)}"
    # Without an artifact element Ivy takes what the POM says, which is right for plain jars.
    named = (
        "" if artifacts == [Coordinate(first.group, first.name, first.version)] else "".join(map(_artifact, artifacts))
    )
    return (
        f'    <dependency {head} force="true" transitive="{str(transitive).lower()}" '
        f'conf="default->default">{named}</dependency>'
    )


def _artifact(c: Coordinate) -> str:
    classifier = f" m:classifier={quoteattr(c.classifier)}" if c.classifier else ""
    return f"<artifact name={quoteattr(c.name)} type={quoteattr(c.ext)} ext={quoteattr(c.ext)}{classifier}/>"


# --- why it failed ---------------------------------------------------------------------------------------------------


def explain(output: str, coordinates: Sequence[Coordinate], *, java: Java, log: Path) -> DownloadError:
    """Ivy's output as an error that names the artifact, the reason and the next step."""
    text = re.sub(r"^\.{2,}.*$", "", output, flags=re.MULTILINE)  # the rows of dots that it draws
    artifact = _unresolved(text) or ", ".join(map(str, coordinates))
    for pattern, reason, hint in _REASONS:
        if match := re.search(pattern, text):
            return DownloadError(artifact, reason.format(match=match[0], java=java.home), hint=hint)
    errors = re.search(r"(?s):::: (?:ERRORS|WARNINGS)\s+(.*?)\n", text)
    reason = (
        errors[1].strip()
        if errors
        else "Ivy stopped: " + (text.strip().splitlines() or ["it said nothing"])[-1].strip()
    )
    return DownloadError(artifact, reason, hint=f"the whole output is in {log}")


def _unresolved(text: str) -> str | None:
    """The artifacts that Ivy lists as unresolved, as coordinates.

    >>> _unresolved(":: org.x#lib;9: not found\\n\\t:: org.y#lib;2!lib.jar")
    'org.x:lib:9, org.y:lib:2'
    """
    matches = re.findall(r":: ([\w.+-]+)#([\w.+-]+);([\w.+-]+)(?:!\S+)?(?:: |$)", text, flags=re.MULTILINE)
    return ", ".join(dict.fromkeys(":".join(parts) for parts in matches)) or None


_NETWORK_HINT = (
    "check the network, or name your site's Ivy settings in FRAZIL_IVY_SETTINGS; what is in the cache works offline"
)
_REASONS = (
    (
        r"No space left on device",
        "the disk is full",
        "free some space, or set FRAZIL_CACHE to a folder on another disk",
    ),
    (
        r"invalid (?:sha\d+|md5): [^\n]*",
        "its checksum is wrong ({match})",
        "try again; if it stays so, the repository serves a damaged file",
    ),
    (
        r"PKIX path building failed",
        "{java} does not trust the repository's certificate",
        "add your site's authority to that Java, or set FRAZIL_JAVA_HOME to one that has it",
    ),
    (r"Host \S+ not found|UnknownHostException[^\n)]*", "no network ({match})", _NETWORK_HINT),
    (
        r"[\w.]+(?:ConnectException|SocketException|SocketTimeoutException|NoRouteToHostException)[^\n)]*",
        "no network ({match})",
        _NETWORK_HINT,
    ),
    (
        r"SSLHandshakeException[^\n)]*|Server access error[^\n]*",
        "the repository did not answer ({match})",
        _NETWORK_HINT,
    ),
    (
        r"UNRESOLVED DEPENDENCIES|FAILED DOWNLOADS",
        "the repository does not have it",
        "check the group, name and version; for a repository of your own, name its Ivy settings in FRAZIL_IVY_SETTINGS",
    ),
    (
        r"(?:SAXParseException|ParseException)[^\n]*",
        "the Ivy settings are not valid ({match})",
        "correct the file that FRAZIL_IVY_SETTINGS names",
    ),
)
