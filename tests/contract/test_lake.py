"""The Python API: connect, tables, SQL results, and one vocabulary for time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil import Lake
from frazil.client import FrazilCatalog
from frazil.errors import ConfigError, HistoryError, QueryError, ScanError, Unavailable
from frazil.served import Served, record_served
from tests.contract.history_lake import Past, tick
from tests.kit.raising import raises


@pytest.fixture
def lake(catalog: FrazilCatalog) -> Iterator[Lake]:
    with frazil.connect(catalog.properties["uri"]) as lake:
        yield lake


@pytest.fixture
def numbers(past: Past) -> Past:
    """Snapshots of 1, then 2, with a tag and a branch at the first."""
    past.append(1)
    past.table.create_tag("first")
    past.table.create_branch("dev")
    tick()
    past.append(2)
    return past


# --- connect ---------------------------------------------------------------------------------------------------------


def test_connect_takes_an_address_and_properties(catalog: FrazilCatalog) -> None:
    uri = catalog.properties["uri"]
    with frazil.connect(uri, **{"header.x-team": "sales"}) as lake:
        assert (lake.settings.catalog.uri, lake.catalog.properties["header.x-team"]) == (uri, "sales")
        assert repr(lake) == f"<Lake {uri}>"


def test_connect_without_an_address_takes_the_catalog_of_the_folder(
    catalog: FrazilCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record_served(tmp_path / ".frazil", Served("serve", catalog.properties["uri"], os.getpid()))
    with frazil.connect() as lake:
        assert lake.catalog.properties["uri"] == catalog.properties["uri"]


def test_connect_says_that_the_catalog_of_the_folder_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    record_served(tmp_path / ".frazil", Served("serve", "http://127.0.0.1:9", 2**22 + 1))
    with raises(Unavailable, name="http://127.0.0.1:9", problem="not-running"):
        frazil.connect()


def test_connect_says_that_no_catalog_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with raises(Unavailable, name=f"http://127.0.0.1:{port}", problem="unreachable"):
        frazil.connect(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("uri", ["lakehouse", "ftp://127.0.0.1/x"])
def test_connect_refuses_an_address_that_is_none(uri: str) -> None:
    with raises(ConfigError, option="catalog.uri", got=uri):
        frazil.connect(uri)


def test_connect_refuses_catalogs_of_other_types() -> None:
    with raises(ConfigError, option="type", got="hive"):
        frazil.connect("http://127.0.0.1:1", type="hive")


def test_keys_in_an_address_are_not_shown() -> None:
    lake = Lake(frazil.lake.connecting.connection_settings("http://ann:secret@127.0.0.1:1", {}))
    assert "secret" not in repr(lake)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_tables_lists_tables_with_their_names(lake: Lake, past: Past) -> None:
    lake.catalog.create_namespace_if_not_exists("other")
    lake.catalog.create_table_if_not_exists("other.t", past.live.schema())
    assert [table.name for table in lake.tables("other")] == ["other.t"]
    assert repr(lake.tables("other")) == "1 table\n  other.t"
    assert past.name in [table.name for table in lake.tables()]


def test_a_table_shows_its_name_and_its_schema(lake: Lake, past: Past) -> None:
    table = lake.table(past.name)
    assert repr(table) == f"<LakeTable {past.name} of {lake.address}>"
    assert [(field.name, str(field.field_type)) for field in table.schema.fields] == [
        ("id", "long"),
        ("name", "string"),
    ]


def test_a_scan_shows_what_it_reads(numbers: Past) -> None:
    snapshot = numbers.live.snapshots()[0].snapshot_id
    scan = numbers.table.scan("id > 0", ["id"], at=snapshot, limit=5)
    assert repr(scan).startswith(f"<Scan of {numbers.name} at snapshot {snapshot}: id, filter ")


# --- SQL -------------------------------------------------------------------------------------------------------------


def test_a_result_can_be_read_again_and_in_any_form(numbers: Past, capsys: pytest.CaptureFixture[str]) -> None:
    result = numbers.lake.sql(f"SELECT id, name FROM {numbers.name} ORDER BY id")
    result.show(limit=1)
    assert "first 1 rows" in capsys.readouterr().out
    expected = [{"id": 1, "name": "n1"}, {"id": 2, "name": "n2"}]
    assert result.to_arrow().to_pylist() == result.to_arrow().to_pylist() == expected
    assert result.to_polars().to_dicts() == result.to_pandas().to_dict("records") == expected
    result.show()
    shown = capsys.readouterr().out
    assert [text in shown for text in ("n1", "n2", "first")] == [True, True, False]
    assert repr(result) == "<Result id: int64, name: string>"


def test_a_streamed_result_is_read_once(numbers: Past) -> None:
    result = numbers.lake.sql(f"SELECT id FROM {numbers.name} ORDER BY id")
    result.show()
    assert pa.table(result)["id"].to_pylist() == [1, 2]
    with raises(QueryError, problem="streamed"):
        result.to_arrow()


# --- time ------------------------------------------------------------------------------------------------------------


def references(past: Past) -> list[object]:
    """Every way to name the first snapshot."""
    first = past.live.snapshots()[0]
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    return [first.snapshot_id, str(first.snapshot_id), moment, moment.isoformat(), "first", "dev"]


def test_at_takes_an_id_a_time_a_branch_or_a_tag_everywhere(numbers: Past) -> None:
    table, lake = numbers.table, numbers.lake
    for at in references(numbers):
        assert table.scan(at=at).to_arrow()["id"].to_pylist() == [1], at  # type: ignore[arg-type]
        assert table.count(at=at) == 1  # type: ignore[arg-type]
        assert lake.sql(f"SELECT id FROM {table.name}", at=at).to_arrow()["id"].to_pylist() == [1]  # type: ignore[arg-type]
        assert table.diff(at).sum("+").rows == 1  # type: ignore[arg-type]
        assert table.plan_rollback(at).diff.sum("-").rows == 1  # type: ignore[arg-type]
        assert table.changes(at).to_arrow()["id"].to_pylist() == [2]  # type: ignore[arg-type]
        assert table.appends(at).to_arrow()["id"].to_pylist() == [2]  # type: ignore[arg-type]
        assert len(table.history(since=at)) == len(table.history(until=at)) == 1  # type: ignore[arg-type]


def test_history_before_the_first_snapshot_is_empty(numbers: Past) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=9)
    assert numbers.table.history(until=long_ago) == []
    assert len(numbers.table.history(since=long_ago, until="first", limit=5)) == 1
    with raises(HistoryError, ref="frist"):
        numbers.table.history(since="frist")


def test_a_date_is_its_midnight_in_utc(numbers: Past) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    assert numbers.table.count(at=tomorrow) == 2


def test_a_branch_that_is_named_like_a_time_is_the_branch(numbers: Past) -> None:
    numbers.table.create_branch("2999-01-01", at="first")
    assert numbers.table.count(at="2999-01-01") == 1
    assert numbers.table.count(at=datetime(2999, 1, 1)) == 2


# --- former names ----------------------------------------------------------------------------------------------------


def test_a_scan_in_spark_needs_a_session(numbers: Past) -> None:
    with raises(QueryError, option="session"):
        numbers.table.scan().to_spark()


def test_sinks_show_their_table_part_and_position(past: Past) -> None:
    with past.table.sink(name="s") as sink:
        assert repr(sink) == f"<ArrowSink of {past.name}, part 's/part-0': at the beginning, 0 rows waiting>"
        sink.write({"id": 1}, position=1)
        assert repr(sink).endswith("at the beginning, 1 row waiting>")
        sink.commit()
        assert repr(sink).endswith("at 1, 0 rows waiting>")
    assert repr(sink) == f"<ArrowSink of {past.name}, part 's/part-0': at 1, closed>"
    upserts = past.table.sink(name="u", mode="upsert", key="id")
    assert repr(upserts).startswith(f"<UpsertSink of {past.name}, part 'u/part-0'")
    frames = past.lake.sink(past.name, name="s", host="spark")
    assert repr(frames) == f"<FrameSink of {past.name}, part 's/part-0': at {{'0': 1}}>"
    dataflow = past.lake.sink(tuple(past.name.split(".")), host="bytewax", parts=2)
    assert repr(dataflow) == f"<TableSink of {past.name}: 2 parts>"


def test_former_keywords_of_scan_work_with_a_warning(numbers: Past) -> None:
    first = numbers.live.snapshots()[0]
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC)
    for old in ({"snapshot": first.snapshot_id}, {"timestamp": moment}, {"branch": "dev"}, {"tag": "first"}):
        with pytest.warns(DeprecationWarning, match="use at="):
            assert numbers.table.scan(**old).count() == 1  # type: ignore[arg-type]
    with pytest.warns(DeprecationWarning, match="use at="), pytest.raises(TypeError, match="not both"):
        numbers.table.scan(at="first", branch="dev")  # type: ignore[call-arg]


def test_former_methods_work_with_a_warning_that_names_the_new_one(numbers: Past) -> None:
    table, lake = numbers.table, numbers.lake
    former = {
        "to_arrow": lambda: table.scan().read_all().num_rows,
        "to_batches": lambda: table.scan().arrow_stream().read_all().num_rows,
        r"Scan.batches\(\) is deprecated, use to_batches": lambda: len(list(table.scan().batches())),
        "history": lambda: len(table.log()),
        r"branches\(\) and tags": lambda: len(table.refs("branch")),
        "Lake.sql": lambda: lake.query(f"SELECT * FROM {table.name}").read_all().num_rows,
        "use until=": lambda: table.appends(None, to="main").count(),  # type: ignore[call-arg]
    }
    for new, call in former.items():
        with pytest.warns(DeprecationWarning, match=new):
            assert call() == 2
    with pytest.warns(DeprecationWarning, match="create_tag"):
        table.create_ref("second", "tag")
    with pytest.warns(DeprecationWarning, match="drop_tag"):
        table.drop_ref("second", "tag")
    with pytest.warns(DeprecationWarning, match="use at="):
        assert table.rollback(to=numbers.live.snapshots()[0].snapshot_id) == numbers.head()  # type: ignore[call-arg]
    assert json.dumps([ref.name for ref in table.tags()]) == '["first"]'


# --- arguments that are wrong or short -------------------------------------------------------------------------------


def test_one_column_may_be_given_as_text(numbers: Past) -> None:
    first = numbers.table.history()[-1].snapshot_id
    assert numbers.table.scan(columns="id").to_arrow().column_names == ["id"]
    assert numbers.table.changes(first, key="id", columns="id").to_arrow().column_names == ["_change_type", "id"]
    assert numbers.table.diff_rows(first, key="id") == numbers.table.diff_rows(first, key=["id"])


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"limit": "3"}, {"limit": 2.5}, {"workers": -1}, {"workers": "2"}])
def test_a_scan_refuses_numbers_that_are_none(numbers: Past, wrong: dict[str, Any]) -> None:
    with raises(ScanError, option=next(iter(wrong))):
        numbers.table.scan(**wrong)


def test_history_refuses_a_negative_limit(numbers: Past) -> None:
    with raises(HistoryError, option="limit"):
        numbers.table.history(limit=-1)


def test_sql_names_an_unknown_engine_and_an_empty_query(lake: Lake) -> None:
    with raises(QueryError, option="engine", expected=("duckdb", "trino", "spark"), got="dukdb"):
        lake.sql("SELECT 1", engine="dukdb")  # type: ignore[arg-type]
    with raises(QueryError, problem="empty"):
        lake.sql("-- nothing")
