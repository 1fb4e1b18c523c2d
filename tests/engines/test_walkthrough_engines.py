"""Spark, Trino, DuckDB and Daft walk the way of PyIceberg through our catalog on SeaweedFS, and read what the others
wrote.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.walkers import WALKERS, Walker
from tests.kit.stack_lake import vector

pytestmark = pytest.mark.usefixtures("live_stack")

WANTED = [("item-3", vector(3))]
# What an engine cannot read of another one's files: (writer, reader) and what it says. One that reads them after all
# fails the test.
UNREADABLE = {("duckdb", "daft"): "list type must have a single child"}  # DuckDB 1.5.5's Parquet lists, Daft 0.7.26


@pytest.fixture
def namespace(request: pytest.FixtureRequest, engines: dict[str, Walker]) -> Iterator[str]:
    """A name that is free, and is free again afterwards."""
    name = f"walk_{request.node.callspec.params['engine']}"
    yield name
    catalog = engines["pyiceberg"].catalog  # type: ignore[attr-defined]
    for identifier in catalog.list_tables(name):
        catalog.purge_table(identifier)
    catalog.drop_namespace(name)


@pytest.mark.parametrize("engine", WALKERS)
def test_an_engine_makes_fills_and_reads_a_table_and_all_others_read_the_same(
    engine: str, namespace: str, engines: dict[str, Walker]
) -> None:
    walker, table = engines[engine], f"{namespace}.items"
    walker.create_namespace(namespace)
    walker.create_table(table)
    walker.append(table, [1, 2])
    walker.append(table, [3, 4])
    readers = {name: reader for name, reader in engines.items() if (engine, name) not in UNREADABLE}
    result = {name: reader.find(table, above=2, unlike="item-4") for name, reader in readers.items()}
    assert result == dict.fromkeys(readers, WANTED)


@pytest.mark.parametrize(("engine", "reader"), UNREADABLE)
def test_an_engine_that_cannot_read_another_ones_files_says_so(
    engine: str, reader: str, namespace: str, engines: dict[str, Walker]
) -> None:
    engines[engine].create_namespace(namespace)
    engines[engine].create_table(f"{namespace}.items")
    engines[engine].append(f"{namespace}.items", [3])
    with pytest.raises(Exception, match=UNREADABLE[engine, reader]):
        engines[reader].find(f"{namespace}.items", above=2, unlike="item-4")


@pytest.mark.parametrize("engine", WALKERS)
def test_an_engine_that_makes_a_namespace_again_gets_already_exists(
    engine: str, namespace: str, engines: dict[str, Walker]
) -> None:
    engines[engine].create_namespace(namespace)
    with pytest.raises(Exception, match=r"(?i)already exists"):
        engines[engine].create_namespace(namespace)


@pytest.mark.parametrize("engine", WALKERS)
def test_an_engine_drops_its_table_and_it_is_gone_for_all(
    engine: str, namespace: str, engines: dict[str, Walker]
) -> None:
    walker, table = engines[engine], f"{namespace}.gone"
    walker.create_namespace(namespace)
    walker.create_table(table)
    walker.drop_table(table)
    assert engines["pyiceberg"].catalog.list_tables(namespace) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["pyiceberg"])  # who makes the table that all share
def test_every_engine_appends_to_one_table_and_all_read_all_rows(
    engine: str, namespace: str, engines: dict[str, Walker]
) -> None:
    table = f"{namespace}.shared"
    engines[engine].create_namespace(namespace)
    engines[engine].create_table(table)
    for number, writer in enumerate(engines.values()):
        writer.append(table, [number])
    readers = {name: reader for name, reader in engines.items() if all(name != unable for _, unable in UNREADABLE)}
    wanted = [(f"item-{number}", vector(number)) for number in range(len(engines))]
    assert {name: sorted(reader.find(table, above=-1, unlike="")) for name, reader in readers.items()} == dict.fromkeys(
        readers, wanted
    )
