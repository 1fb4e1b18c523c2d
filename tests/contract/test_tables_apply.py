"""Plans on a running catalog: each step one commit that rests on what the plan saw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import CommitTableResponse
from pyiceberg.types import LongType

from frazil import Column, Table, column
from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import ChangeRefused, DeclarationError, StalePlan
from frazil.tables.apply import apply_steps, plan, plan_all
from frazil.tables.drift import find_drift
from frazil.tables.planfile import load_plan, save_plan
from frazil.tables.steps import AlterTable, Step
from tests.kit.raising import raises

A, B, C = column("a", "int", required=True), column("b", "string"), column("c", "string")


def table(*columns: Column, name: str = "l.t", **options: object) -> Table:
    return Table(name, *columns, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        yield server.uri


@pytest.fixture
def table_catalog(uri: str) -> Iterator[FrazilCatalog]:
    """A catalog whose table `l.t` has the columns a and b."""
    client = FrazilCatalog("lake", uri=uri)
    apply(table(A, B, properties={"p": "1"}), client)
    yield client
    for identifier in client.list_tables("l"):
        client.purge_table(identifier)
    client.close()


def apply(declared: Table, catalog: FrazilCatalog) -> list[str]:
    done = [str(step) for step in apply_steps(plan(declared, catalog), catalog)]
    assert plan(declared, catalog) == []
    return done


def by_hand(catalog: FrazilCatalog) -> None:
    with catalog.load_table("l.t").update_schema() as update:
        update.rename_column("b", "by_hand")


def test_what_is_declared_is_created_and_a_second_apply_does_nothing(table_catalog: FrazilCatalog) -> None:
    declared = table(A, column("day", "date"), name="l.made", partition_by=["day"], sort_by=["a"], key=["a"])
    assert apply(declared, table_catalog) == ["+ table l.made (2 columns, partitioned by day)"]
    result = table_catalog.load_table("l.made")
    assert (result.schema(), result.spec(), result.sort_order()) == (
        declared.schema(),
        declared.partition_spec(),
        declared.sort_order(),
    )
    assert apply(declared, table_catalog) == []


def test_all_changes_of_a_table_are_one_commit(table_catalog: FrazilCatalog) -> None:
    before = table_catalog.load_table("l.t").metadata
    done = apply(
        table(column("a", "long"), C, B, partition_by=["bucket(4, a)"], sort_by=["b"], properties={"q": "2"}),
        table_catalog,
    )
    after = table_catalog.load_table("l.t").metadata
    assert [line.strip()[0] for line in done[0].splitlines()] == ["~", "~", "~", "+", "+", "~", "+", "-"]
    assert (len(after.metadata_log) - len(before.metadata_log), after.table_uuid) == (1, before.table_uuid)
    assert (after.properties["q"], after.properties.get("p")) == ("2", None)


def test_rows_that_are_written_meanwhile_do_not_make_a_plan_stale(table_catalog: FrazilCatalog) -> None:
    steps = plan(table(A, B, C, properties={"p": "1"}), table_catalog)
    live = table_catalog.load_table("l.t")
    live.append(pa.table({"a": [1], "b": ["x"]}, schema=live.schema().as_arrow()))
    list(apply_steps(steps, table_catalog))
    assert table_catalog.load_table("l.t").scan().to_arrow().to_pylist() == [{"a": 1, "b": "x", "c": None}]


def test_a_plan_made_before_somebody_changed_the_schema_is_refused_and_says_so(table_catalog: FrazilCatalog) -> None:
    steps = plan(table(A, B, C, properties={"p": "1"}), table_catalog)
    by_hand(table_catalog)
    with pytest.raises(StalePlan) as raised:
        list(apply_steps(steps, table_catalog))
    assert raised.value.message.splitlines() == [
        "the plan for l.t is stale; since it was made, the table changed:",
        "  the schema (its id was 0, is 1)",
        "  ~ column by_hand: renamed from b",
    ]
    assert table_catalog.load_table("l.t").schema().column_names == ["a", "by_hand"]


def test_a_plan_is_stale_when_a_property_that_it_changes_has_changed_and_not_when_another_has(
    table_catalog: FrazilCatalog,
) -> None:
    steps = plan(table(A, B, properties={"p": "2"}), table_catalog)
    with table_catalog.load_table("l.t").transaction() as transaction:
        transaction.set_properties(other="x")
    with table_catalog.load_table("l.t").transaction() as transaction:
        transaction.set_properties(p="9")
    with pytest.raises(StalePlan) as raised:
        list(apply_steps(steps, table_catalog))
    assert raised.value.changed == ("property p (was '1', is '9')",)


def test_of_two_plans_made_at_once_one_is_applied(table_catalog: FrazilCatalog) -> None:
    first, second = (plan(table(A, B, properties={"p": "1", key: "x"}), table_catalog) for key in ("q", "r"))
    list(apply_steps(first, table_catalog))
    with pytest.raises(StalePlan) as raised:
        list(apply_steps(second, table_catalog))
    assert raised.value.changed == ("what is applied: another plan was applied",)


def test_a_plan_for_a_table_that_was_replaced_or_dropped_is_refused(table_catalog: FrazilCatalog) -> None:
    steps = plan(table(A, B, C, properties={"p": "1"}), table_catalog)
    table_catalog.drop_table("l.t")
    with raises(StalePlan, changed=("the table itself: it is gone",)):
        list(apply_steps(steps, table_catalog))
    table_catalog.create_table("l.t", table(A).schema())
    with raises(StalePlan, changed=("the table itself: another one has its name",)):
        list(apply_steps(steps, table_catalog))


def test_one_stale_step_stops_a_plan_before_anything_is_done(table_catalog: FrazilCatalog) -> None:
    steps = plan_all([table(A, name="l.new"), table(A, B, C, properties={"p": "1"})], table_catalog)
    by_hand(table_catalog)
    with pytest.raises(StalePlan):
        list(apply_steps(steps, table_catalog))
    assert not table_catalog.table_exists("l.new")


class Outrun(FrazilCatalog):
    """A catalog before whose every commit another writer is faster."""

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
        other = FrazilCatalog("lake", uri=self.uri)
        by_hand(other)
        other.close()
        return super().commit_table(table, requirements, updates)


def test_a_change_between_the_look_and_the_commit_is_noticed_by_the_commit_itself(table_catalog: FrazilCatalog) -> None:
    steps = plan(table(A, B, C, properties={"p": "1"}), table_catalog)
    with raises(StalePlan, table="l.t"):
        list(apply_steps(steps, Outrun("lake", uri=table_catalog.uri)))
    assert table_catalog.load_table("l.t").schema().column_names == ["a", "by_hand"]


def test_a_saved_plan_does_what_was_read_and_only_once(table_catalog: FrazilCatalog, tmp_path: Path) -> None:
    save_plan(
        plan_all([table(A, name="l.new", sort_by=["a"]), table(A, B, C, properties={"p": "1"})], table_catalog),
        tmp_path / "plan",
    )
    list(apply_steps(load_plan(tmp_path / "plan"), table_catalog))
    assert table_catalog.load_table("l.t").schema().column_names == ["a", "b", "c"]
    assert str(table_catalog.load_table("l.new").sort_order().fields[0]) == "1 ASC NULLS FIRST"
    with raises(StalePlan, table="l.new", changed=("the table itself: it is there already",)):
        list(apply_steps(load_plan(tmp_path / "plan"), table_catalog))


def test_the_reasons_of_all_tables_are_reported_together(table_catalog: FrazilCatalog) -> None:
    apply(table(A, name="l.u"), table_catalog)
    with pytest.raises(ChangeRefused) as raised:
        plan_all([table(A, properties={"p": "1"}), table(column("a", "string"), name="l.u")], table_catalog)
    assert [reason.partition(":")[0] for reason in raised.value.reasons] == ["l.t", "l.u"]


def test_a_check_that_does_not_fit_the_columns_shows_in_the_plan(table_catalog: FrazilCatalog) -> None:
    with raises(DeclarationError, table="l.t"):
        plan(table(A, B, checks=["a > 0", "amount > 0"]), table_catalog)


def test_two_tables_in_one_new_namespace_make_it_once(table_catalog: FrazilCatalog) -> None:
    steps: list[Step] = plan_all([table(A, name="fresh.t"), table(A, name="fresh.u")], table_catalog)
    assert [str(step).split(" (")[0] for step in steps] == ["+ namespace fresh", "+ table fresh.t", "+ table fresh.u"]


def test_any_catalog_of_pyiceberg_will_do(table_catalog: FrazilCatalog) -> None:
    plain = load_catalog("lake", type="rest", uri=table_catalog.uri)
    steps = plan(table(A, B, C, properties={"p": "1"}), plain)
    by_hand(table_catalog)
    fresh = plan(table(A, column("by_hand", "string"), C, properties={"p": "1"}), plain)
    with pytest.raises(StalePlan):
        list(apply_steps(steps, plain))
    list(apply_steps(fresh, plain))
    assert table_catalog.load_table("l.t").schema().column_names == ["a", "by_hand", "c"]


def test_defaults_come_into_being_with_the_table_and_with_the_column(table_catalog: FrazilCatalog) -> None:
    declared = table(A, column("n", "int", required=True, default=7), name="l.v3", format_version=3)
    apply(declared, table_catalog)
    apply(
        table(*declared.columns, column("day", "date", default="2024-01-15"), name="l.v3", format_version=3),
        table_catalog,
    )
    fields = table_catalog.load_table("l.v3").schema().fields
    assert [(f.name, f.required, str(f.initial_default), str(f.write_default)) for f in fields] == [
        ("a", True, "None", "None"),
        ("n", True, "7", "7"),
        ("day", False, "2024-01-15", "2024-01-15"),
    ]


# --- drift -----------------------------------------------------------------------------------------------------------


def drift(declared: Table, catalog: FrazilCatalog) -> list[str]:
    live = catalog.load_table(declared.identifier) if catalog.table_exists(declared.identifier) else None
    return [str(change) for change in find_drift(declared, live)]


def test_drift_is_what_was_changed_by_hand_and_not_what_was_declared_since(table_catalog: FrazilCatalog) -> None:
    with table_catalog.load_table("l.t").update_schema() as update:
        update.rename_column("b", "by_hand").add_column("extra", table(A).schema().fields[0].field_type)
    with table_catalog.load_table("l.t").update_spec() as spec:
        spec.add_identity("a")
    with table_catalog.load_table("l.t").transaction() as transaction:
        transaction.set_properties({"p": "9", "frazil.progress.main": "{}", "theirs": "x"})
    declared = table(column("a", "long", required=True), B, properties={"p": "1", "q": "2"})
    assert drift(declared, table_catalog) == [
        "~ column by_hand: renamed from b",
        "+ column extra int",
        "+ partition a",
        "~ property p: 1 -> 9",
    ]


def test_a_column_dropped_by_hand_is_drift_until_the_declaration_follows(table_catalog: FrazilCatalog) -> None:
    with table_catalog.load_table("l.t").update_schema() as update:
        update.delete_column("b")
    assert drift(table(A, B, properties={"p": "1"}), table_catalog) == ["- column b string"]
    assert drift(table(A, properties={"p": "1"}), table_catalog) == []


def test_a_change_by_hand_that_cannot_be_taken_back_is_drift_all_the_same(table_catalog: FrazilCatalog) -> None:
    with table_catalog.load_table("l.t").update_schema() as update:
        update.update_column("a", LongType()).make_column_optional("a")
    assert drift(table(A, B, properties={"p": "1"}), table_catalog) == [
        "~ column a: int -> long",
        "~ column a: now optional",
    ]


def test_a_table_that_was_never_applied_is_compared_with_its_declaration(table_catalog: FrazilCatalog) -> None:
    table_catalog.create_table("l.theirs", table(A, B).schema())
    assert drift(table(A, C, name="l.theirs"), table_catalog) == ["+ column b string", "- column c string"]


def test_a_table_whose_record_was_spoilt_is_compared_with_its_declaration_and_gets_a_new_one(
    table_catalog: FrazilCatalog,
) -> None:
    with table_catalog.load_table("l.t").transaction() as transaction:
        transaction.set_properties({"frazil.applied": "{nonsense"})
    assert drift(table(A, B, C, properties={"p": "1"}), table_catalog) == ["- column c string"]
    apply(table(A, B, C, properties={"p": "1"}), table_catalog)
    by_hand(table_catalog)
    assert drift(table(A, B, C, properties={"p": "1"}), table_catalog) == ["~ column by_hand: renamed from b"]


def test_a_table_that_is_gone_is_drift(table_catalog: FrazilCatalog) -> None:
    assert drift(table(A, name="l.gone"), table_catalog) == ["- table l.gone: it is not there"]


def test_what_a_plan_changes_is_what_it_says(table_catalog: FrazilCatalog) -> None:
    (step,) = plan(table(A, B, C, properties={"p": "1"}), table_catalog)
    assert isinstance(step, AlterTable)
    assert [update["action"] for update in step.updates] == ["add-schema", "set-current-schema", "set-properties"]
