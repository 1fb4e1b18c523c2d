"""What a run asks of the landing folder and of the catalog: one listing, and few loads of each table."""

from __future__ import annotations

import re
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from frazil.catalog.embedded import running_catalog
from frazil.cli.main import cli
from tests.kit.s3_objects import Objects, serving_objects

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
PROJECT = """
from frazil import Table, column, pipeline, sources

sales = Table("lakehouse.sales", column("order_id", "long", required=True), column("note", "string"))


@pipeline(source=sources.csv("PATTERN"), target=sales)
def load(orders):
    return orders
"""
ROWS = b"order_id,note\n1,a\n2,b\n"
# Of all tables of a run together; the loads of the ones that it creates are among them.
MOST_LOADS = 14
globbed: Counter[str] = Counter()
counting: list[str] = []  # patterns


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "glob.glob/2" and arguments[0] in counting:
        globbed[arguments[0]] += 1


sys.addaudithook(_count)


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A catalog, with an empty project as the current folder."""
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "catalog") as server:
        monkeypatch.setenv("FRAZIL_CATALOG__URI", server.uri)
        monkeypatch.setenv("FRAZIL_SPARK__MASTER", "local[1]")
        yield server.uri


def frazil(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    return result.stdout


def requests(uri: str) -> Counter[str]:
    """How often each operation was served."""
    with urllib.request.urlopen(f"{uri}/metrics") as answer:
        text = answer.read().decode()
    counts: Counter[str] = Counter()
    for operation, number in re.findall(r'frazil_requests_total\{operation="(\w+)"[^}]*\} ([0-9.e+]+)', text):
        counts[operation] += int(float(number))
    return counts


def declare(pattern: str) -> None:
    Path("lakehouse.py").write_text(PROJECT.replace("PATTERN", pattern))
    frazil("apply", "--yes")


def test_a_run_lists_local_files_once_and_loads_tables_seldom(uri: str) -> None:
    declare("landing/*.csv")
    Path("landing").mkdir()
    for number in range(2):
        Path(f"landing/{number}.csv").write_bytes(ROWS)
        counting[:], before = ["landing/*.csv"], requests(uri)
        globbed.clear()
        assert "2 rows from 1 file are in lakehouse.sales" in frazil("run", "load")
        served = requests(uri) - before
        assert globbed["landing/*.csv"] == 1
        assert served["loadTable"] <= MOST_LOADS, served
        assert served["commitTransaction"] == 1, served  # the rows; companion tables are made with their owner
    before = requests(uri)
    assert "no new files" in frazil("run", "load")
    assert globbed["landing/*.csv"] == 2
    assert (requests(uri) - before)["loadTable"] == 2  # the target and the ledger


def test_a_run_lists_objects_once_and_asks_again_only_for_those_it_loads(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_objects(Objects(content={f"landing/{number}.csv": ROWS for number in range(3)})) as objects:
        monkeypatch.setenv("FRAZIL_S3__ENDPOINT", objects.endpoint)
        monkeypatch.setenv("FRAZIL_S3__ACCESS_KEY_ID", "key")
        monkeypatch.setenv("FRAZIL_S3__SECRET_ACCESS_KEY", "secret")
        declare("s3://bucket/landing/*.csv")
        assert "6 rows from 3 files are in lakehouse.sales" in frazil("run", "load")
        assert objects.requests["LIST"] == 1
        objects.requests.clear()
        assert "no new files" in frazil("run", "load")
        assert objects.requests == {"LIST": 1}
