"""Seven engines are asked the same questions about one zoo of tables: the same rows, or a listed reason that is still
true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from tests.engines.walkers import Walker
from tests.engines.zoo import NAMESPACE, build_zoo, truth
from tests.engines.zoo_engines import Rows, Zoo, ask_arrow
from tests.engines.zoo_limits import LIMITS, limit_of
from tests.engines.zoo_queries import ENGINES, GROUPS, QUERIES, Query
from tests.kit.stack import Project

Answers = dict[str, Rows | Exception]
pytestmark = [
    # advice of Polars to install it
    pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin"),
    # Daft 0.7, of a transform by which nothing is pruned anyway
    pytest.mark.filterwarnings("ignore:void not implemented"),
]


@pytest.fixture(scope="module")
def zoo(live_stack: Project, engines: dict[str, Walker]) -> Iterator[Zoo]:
    zoo = Zoo(live_stack, engines)
    build_zoo(zoo.catalog, engines["spark"].process)  # type: ignore[attr-defined]
    yield zoo
    for identifier in zoo.catalog.list_tables(NAMESPACE):
        zoo.catalog.purge_table(identifier)
    zoo.catalog.drop_namespace(NAMESPACE)


@pytest.fixture(scope="module")
def answers_of(zoo: Zoo) -> Callable[[str], Answers]:
    """All answers of an engine, asked for once."""
    known: dict[str, Answers] = {}

    def find(engine: str) -> Answers:
        if engine not in known:
            known[engine] = dict(zip(QUERIES, zoo.ask(engine, list(QUERIES.values())), strict=True))
        return known[engine]

    return find


@pytest.fixture(scope="module")
def rows() -> dict[str, pa.Table]:
    return truth()


def right_answer(query: Query, rows: dict[str, pa.Table]) -> Rows:
    return ask_arrow(query, rows[f"{query.table}@{query.at}" if query.at else query.table], truth=True)


@pytest.mark.requirement("daft.position-deletes", "daft.equality-deletes", "daft.partitioning", "daft.snapshot")
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_right_rows_or_what_is_listed(
    engine: str, query: str, answers_of: Callable[[str], Answers], rows: dict[str, pa.Table]
) -> None:
    result, limit = answers_of(engine)[query], limit_of(engine, query)
    right = right_answer(QUERIES[query], rows)
    if limit is None:
        if isinstance(result, Exception):
            raise result
        assert result == right
    elif limit.says is None:
        assert not isinstance(result, Exception), (
            f"it refuses now, which is better than wrong rows: list what it says ({result})"
        )
        assert result != right, "it works now: take it off the list in zoo_limits.py"
    else:
        assert isinstance(result, Exception), "it works now: take it off the list in zoo_limits.py"
        assert limit.says in str(result)


PLANNED = [query for group in ("partitions", "evolution", "deletes") for query in GROUPS[group]]


@pytest.fixture(scope="module")
def planned_answers(zoo: Zoo) -> Answers:
    return dict(zip([query.name for query in PLANNED], zoo.ask_planned_spark(PLANNED), strict=True))


@pytest.mark.parametrize("query", [query.name for query in PLANNED])
def test_spark_gives_the_right_rows_when_the_catalog_plans(
    query: str, planned_answers: Answers, rows: dict[str, pa.Table]
) -> None:
    assert planned_answers[query] == right_answer(QUERIES[query], rows)


# PyIceberg's model of an answer refuses partitions that are null, and its own planning refuses equality deletes.
NOT_FOR_PYICEBERG = {
    "transforms": "partition",
    "respecced": "partition",
    "equality_deletes": "equality deletes",
    "mixed": "equality deletes|partition",
}


@pytest.mark.parametrize("table", sorted({query.table for query in QUERIES.values()}))
def test_pyiceberg_gets_the_plan_that_it_would_have_made(table: str, zoo: Zoo) -> None:
    if table in NOT_FOR_PYICEBERG:
        with pytest.raises(ValueError, match=NOT_FOR_PYICEBERG[table]):
            zoo.plans(table)
        return
    own, catalogs = zoo.plans(table)
    assert catalogs == own
    assert bool(own) == (table not in ("empty", "emptied"))


def test_there_is_no_question_that_has_no_rows_by_mistake(rows: dict[str, pa.Table]) -> None:
    empty = {query.name for query in QUERIES.values() if not right_answer(query, rows)}
    assert empty == {"a table without a snapshot"}


def test_our_scan_has_no_limits_and_every_limit_names_an_engine_and_a_question() -> None:
    assert {limit.engine for limit in LIMITS} <= set(ENGINES) - {"frazil"}
    assert {query for limit in LIMITS for query in limit.queries} <= set(QUERIES)
