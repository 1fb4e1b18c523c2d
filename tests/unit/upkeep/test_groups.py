"""Which files are rewritten together: decided on sizes, deletes and partitions alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.upkeep.groups import MB, AppliedDelete, LiveFile, Rules, plan_groups, why_not

RULES = Rules(target_bytes=100 * MB)


def small(count: int, *, size: int = 10 * MB, **facts: object) -> list[LiveFile]:
    place = "-".join(map(str, facts.values()))
    return [LiveFile(f"small{place}-{number}", size, 100, **facts) for number in range(count)]  # type: ignore[arg-type]


def names(files: list[LiveFile], rules: Rules = RULES) -> list[list[str]]:
    return [sorted(group.paths) for group in plan_groups(files, rules)]


def test_few_small_files_wait_for_more() -> None:
    assert names(small(4)) == []
    assert len(names(small(5))) == 1


def test_few_files_that_fill_one_do_not_wait() -> None:
    assert len(names(small(2, size=60 * MB))) == 1


def test_well_sized_files_are_left_alone() -> None:
    assert (
        names([LiveFile(f"f{number}", size * MB, 1) for number, size in enumerate((75, 100, 180, 99, 120, 150))]) == []
    )


def test_partitions_are_never_mixed() -> None:
    files = small(5, partition=(1,)) + small(5, partition=(2,)) + small(4, partition=(3,))
    assert [len(group) for group in names(files)] == [5, 5]


def test_a_file_that_is_too_large_is_split_alone() -> None:
    assert names([LiveFile("large", 181 * MB, 1)]) == [["large"]]


@pytest.mark.parametrize(
    "deletes", [[AppliedDelete("d", 1, 30, True)], [AppliedDelete(f"d{n}", 1, 1, False) for n in range(5)]]
)
def test_a_file_with_many_deletes_is_rewritten_though_its_size_is_right(deletes: list[AppliedDelete]) -> None:
    assert names([LiveFile("f", 100 * MB, 100, deletes=tuple(deletes))]) == [["f"]]


def test_a_few_deleted_rows_are_no_reason() -> None:
    assert names([LiveFile("f", 100 * MB, 100, deletes=(AppliedDelete("d", 1, 29, True),))]) == []


def test_files_of_an_older_partitioning_are_taken_together() -> None:
    files = [LiveFile(f"f{day}", 10 * MB, 1, spec_id=0, partition=(day,)) for day in range(5)]
    assert [len(group) for group in names(files, Rules(100 * MB, spec_id=1))] == [5]


def test_what_cannot_be_read_here_is_left_alone() -> None:
    avro, orc = LiveFile("a", MB, 1, format="AVRO"), LiveFile("o", MB, 1, format="ORC")
    deleted = LiveFile("d", MB, 1, deletes=(AppliedDelete("d", 1, 1, True, "AVRO"),))
    assert all(map(why_not, (avro, orc, deleted)))
    assert names([avro, orc, deleted, *small(4)]) == []


def test_rows_without_ids_are_left_alone_where_rows_have_ids() -> None:
    assert names(small(5), Rules(100 * MB, keeps_row_ids=True)) == []
    assert len(names([replace(item, first_row_id=0) for item in small(5)], Rules(100 * MB, keeps_row_ids=True))) == 1


def test_everything_means_every_file() -> None:
    assert names([LiveFile("fine", 100 * MB, 1)], Rules(100 * MB, everything=True)) == [["fine"]]


def test_groups_have_a_largest_size() -> None:
    groups = plan_groups(small(100), Rules(100 * MB, group_bytes=250 * MB))
    assert max(group.bytes for group in groups) <= 250 * MB
    assert sum(len(group.files) for group in groups) == 100


SIZES = st.lists(st.integers(1, 400), max_size=60)


@given(SIZES)
def test_after_a_rewrite_there_is_nothing_left_to_do(sizes: list[int]) -> None:
    """Files are written up to the target size, and the rest into one more: such a partition must not be
    chosen again.
    """
    files = [LiveFile(f"f{number}", size * MB, 1) for number, size in enumerate(sizes)]
    for round_ in range(3):
        groups = plan_groups(files, RULES)
        rewritten = {path for group in groups for path in group.paths}
        files = [file for file in files if file.path not in rewritten]
        for number, group in enumerate(groups):
            full, rest = divmod(group.bytes, 100 * MB)
            sizes_after = [100 * MB] * full + ([rest] if rest else [])
            files += [LiveFile(f"r{round_}-{number}-{at}", size, 1) for at, size in enumerate(sizes_after)]
    assert plan_groups(files, RULES) == []
