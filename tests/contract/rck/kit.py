"""Runs the official REST compatibility kit of Apache Iceberg against a catalog and reads what it found."""

from __future__ import annotations

import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.iceberg_java import java_command

# What the catalog says it can do; the kit skips the tests of what is off.
SWITCHES = {
    "rck.local": "false",
    "rck.requires-namespace-create": "true",
    "rck.supports-serverside-retry": "true",
    "rck.supports-names-with-dot": "true",
    "rck.supports-variant": "true",  # not read by the kit of 1.11.0; on, so that a newer kit runs those tests
}
# The kit's own tables with a given location lie here, whatever the catalog's warehouse is.
FOREIGN_LOCATION = "file:/tmp"
_LEFTOVERS = [Path("/tmp") / name for name in ("ns", "newdb", "ns1", "ns2", "other_ns")]


@dataclass(frozen=True)
class Outcome:
    """How one test ended: passed, failed or skipped, and what the kit said about it."""

    word: str
    message: str = ""


Outcomes = Mapping[str, Outcome]  # by "Class.test", without the prefix that all classes share


def run_kit(uri: str, folder: Path) -> Outcomes:
    """The outcome of each test of the kit against the (empty) catalog at `uri`; reports go below `folder`."""
    ours = [path for path in _LEFTOVERS if not path.exists()]
    # The first compiler only: the kit is over before the second one pays (6 s of CPU instead of 16).
    options = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        f"-Duri={uri}",
        "-Dwarehouse=default",
        *(f"-D{k}={v}" for k, v in SWITCHES.items()),
    ]
    suite = ["execute", "--select-class", "org.apache.iceberg.rest.RESTCompatibilityKitSuite"]
    reports = ["--reports-dir", str(folder), "--details", "none", "--disable-banner"]
    command = [*java_command(*options), "org.junit.platform.console.ConsoleLauncher", *suite, *reports]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    for path in ours:
        shutil.rmtree(path, ignore_errors=True)
    report = folder / "TEST-junit-platform-suite.xml"
    assert report.exists(), f"the kit wrote no report:\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
    return read_report(report)


def read_report(report: Path) -> Outcomes:
    """The outcome of each test in a JUnit report."""
    cases = ET.parse(report).getroot().iter("testcase")  # written by the kit that we just ran
    return {_name(case): _outcome(case) for case in sorted(cases, key=_name)}


def counts(outcomes: Outcomes) -> dict[str, int]:
    """How many tests ended in which way."""
    counter = Counter(outcome.word for outcome in outcomes.values())
    return {word: counter[word] for word in ("passed", "failed", "skipped")}


def _name(case: ET.Element) -> str:
    suite = case.attrib["classname"].rpartition(".")[2].removeprefix("RESTCompatibilityKit")
    return f"{suite}.{case.attrib['name'].replace('()', '')}"


def _outcome(case: ET.Element) -> Outcome:
    for word, tags in (("skipped", ("skipped",)), ("failed", ("failure", "error"))):
        for tag in tags:
            if (result := case.find(tag)) is not None:
                return Outcome(word, _first_words(result))
    return Outcome("passed")


def _first_words(value: ET.Element) -> str:
    text = value.get("message") or (value.text or "")
    text = text.partition("\tat ")[0].replace(
        "org.junit.AssumptionViolatedException: assumption was not met due to:", ""
    )
    return " ".join(text.split())
