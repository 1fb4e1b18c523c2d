"""Several tables published in one commit, each with its progress and the tables that it was made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyiceberg.table.snapshots import Operation

from frazil.catalog.embedded import running_catalog
from frazil.client import FrazilCatalog
from frazil.errors import CommitUnknown, WriterFenced
from frazil.scan.reading import scan_rows
from frazil.write.commit.progress import InputState, read_progress
from frazil.write.commit.publish import CommitCatalog, Publication, publish_together
from frazil.write.commit.replace import Overwrite
from tests.contract.test_sink_publish import Faulty, PublishedTable, Writer, lose_reply, lose_request
from tests.kit.delete_files import delete_rows

INPUTS = {"silver.orders": InputState("8f1e", 7), "silver.customers": InputState("9a2b", None)}


@pytest.fixture(scope="module")
def catalog() -> Iterator[FrazilCatalog]:
    with running_catalog() as server:
        opened = FrazilCatalog("lake", **server.properties)
        opened.create_namespace("lake")
        yield opened


@pytest.fixture
def lakes(catalog: FrazilCatalog) -> list[PublishedTable]:
    tables = [PublishedTable(catalog) for _ in range(2)]
    for table in tables:
        table.create()
    return tables


def publication(writer: Writer, count: int = 3) -> Publication:
    claim = replace(writer.claim(count), inputs=INPUTS)
    return Publication(writer.publisher, writer.append(claim), claim)


def writers(lakes: list[PublishedTable], catalog: CommitCatalog | None = None) -> list[Writer]:
    return [lake.planner(catalog=catalog) for lake in lakes]


def ids(lakes: list[PublishedTable]) -> list[list[int]]:
    return [lake.ids() for lake in lakes]


def test_all_tables_get_their_rows_and_inputs_in_one_commit(lakes: list[PublishedTable]) -> None:
    done = publish_together([publication(writer) for writer in writers(lakes)])
    assert ids(lakes) == [[0, 1, 2]] * 2
    assert [read_progress(lake.table().metadata).part("s/0") for lake in lakes] == [each.progress for each in done]
    assert {each.progress.inputs["silver.orders"] for each in done} == {InputState("8f1e", 7)}
    assert done[0].progress.inputs == INPUTS


@pytest.mark.parametrize("fault", [lose_reply, lose_request])
def test_a_lost_answer_leaves_no_table_behind(lakes: list[PublishedTable], fault: object) -> None:
    faulty = Faulty(lakes[0].catalog, [fault])  # type: ignore[list-item]
    publish_together([publication(writer) for writer in writers(lakes, faulty)])
    assert ids(lakes) == [[0, 1, 2]] * 2
    assert [len(lake.table().snapshots()) for lake in lakes] == [1, 1]


def test_one_fenced_writer_keeps_all_tables_as_they_were(lakes: list[PublishedTable]) -> None:
    first, second = writers(lakes)
    lakes[1].planner().write(1)
    with pytest.raises(WriterFenced):
        publish_together([publication(first), publication(second)])
    assert ids(lakes) == [[], [0]]


def test_a_writer_that_commits_in_between_moves_no_row(lakes: list[PublishedTable]) -> None:
    """The other part's commit moves the head: the attempt conflicts, and the next one builds on it."""
    other = lakes[1].writer("other/0")

    def overtaken(commit: object) -> None:
        other.write(2, base=100)
        commit()  # type: ignore[operator]

    publish_together([publication(writer) for writer in writers(lakes, Faulty(lakes[0].catalog, [overtaken]))])
    assert ids(lakes) == [[0, 1, 2], [0, 1, 2, 100, 101]]


def test_giving_up_after_a_lost_reply_is_an_unknown_outcome(lakes: list[PublishedTable]) -> None:
    """The commit happened, and another writer took over before the answer."""
    first, second = writers(lakes, faulty := Faulty(lakes[0].catalog))

    def lost_and_taken(commit: object) -> None:
        commit()  # type: ignore[operator]
        lakes[0].writer()
        raise CommitUnknown("the reply was lost")

    faulty.plan.append(lost_and_taken)
    with pytest.raises(CommitUnknown):
        publish_together([publication(first), publication(second)])
    assert ids(lakes) == [[0, 1, 2]] * 2


def test_an_overwrite_replaces_all_rows_and_their_delete_files(lakes: list[PublishedTable]) -> None:
    lake = lakes[0]
    writer = lake.writer()
    writer.write(5)
    places = scan_rows(lake.table(), ["id", "_file", "_pos"]).to_arrow()
    delete_rows(lake.catalog, ".".join(lake.name), places.slice(1, 1).select(["_file", "_pos"]))
    claim = writer.claim(2)
    writer.publisher.publish(Overwrite(lake.name, writer.files([7, 8]), "main"), claim)
    assert lake.ids() == [7, 8]
    summary = lake.table().current_snapshot().summary  # type: ignore[union-attr]
    assert (summary["operation"], summary["total-records"], summary["total-delete-files"]) == (
        Operation.OVERWRITE,
        "2",
        "0",
    )
