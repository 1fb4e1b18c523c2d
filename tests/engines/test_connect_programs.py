"""What `frazil connect` prints for clients that are programs (Go, Rust, Flink, Kafka Connect) is run as it stands against `frazil serve`.

Only `make soak` runs these: the clients are fetched from their registries, and compiled where their language is. The versions are exact.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.connect import S3
from tests.engines.client_lake import ClientLake, client_lake, object_store

pytestmark = pytest.mark.soak

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with object_store(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(params=["files", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClientLake]:
    store = request.getfixturevalue("store") if request.param == "s3" else None
    with client_lake(tmp_path / request.node.name.replace("[", "-").replace("]", ""), store) as started:
        yield started


def toolchain(name: str) -> str:
    """The path of a compiler. Its absence is the only reason for which a test here is skipped."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH: what `frazil connect` prints for it was not run")
    return found


def test_a_go_program_reads_and_writes_with_the_function(lake: ClientLake) -> None:
    go = toolchain("go")
    shutil.copytree(PROGRAMS / "go", lake.folder, dirs_exist_ok=True)
    lake.write("lake/lake.go", lake.connect("go"))
    lake.run(go, "vet", "./lake")
    assert lake.run(go, "run", ".").splitlines() == ["2 3", "3 6"]  # rows and sum of ids, before and after its own append
    assert lake.rows("ns.items") == [(1, "a"), (2, None), (3, "go")]
    assert lake.rows("ns.made") == [(7, "x"), (8, "y")]


@pytest.fixture(scope="module")
def cargo_target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where cargo keeps what it has compiled, so that the crates are compiled once for all tests."""
    return os.environ.get("CARGO_TARGET_DIR") or str(tmp_path_factory.mktemp("cargo"))


def test_a_rust_program_reads_and_writes_with_the_function(lake: ClientLake, cargo_target: str) -> None:
    cargo = toolchain("cargo")
    shutil.copytree(PROGRAMS / "rust", lake.folder, dirs_exist_ok=True)
    lake.write("src/lake.rs", lake.connect("rust"))
    assert lake.run(cargo, "run", "-q", CARGO_TARGET_DIR=cargo_target).splitlines() == ["2 3", "3 6"]
    assert lake.rows("ns.items") == [(1, "a"), (2, None), (3, "rust")]
    assert lake.rows("ns.made") == [(7, "x"), (8, "y")]
