"""Landing files on S3: what is listed, and which of them have changed since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil import sources
from frazil.errors import PipelineError
from frazil.pipelines.files.listing import find_changed
from tests.kit.raising import raises
from tests.kit.s3_objects import Objects, serving_objects


@pytest.fixture
def objects() -> Iterator[Objects]:
    with serving_objects(Objects(content={"in/a.csv": b"1", "in/b.csv": b"2", "in/_draft.csv": b"3"})) as served:
        yield served


def properties(objects: Objects) -> dict[str, str]:
    return {"s3.endpoint": objects.endpoint, "s3.access-key-id": "key", "s3.secret-access-key": "secret"}


def test_objects_that_are_not_what_was_listed_are_found_without_a_second_listing(
    objects: Objects, tmp_path: Path
) -> None:
    files = sources.csv("s3://bucket/in/*.csv").list_files(tmp_path, properties(objects))
    assert [file.path for file in files] == ["s3://bucket/in/a.csv", "s3://bucket/in/b.csv"]
    assert find_changed(files, tmp_path, properties(objects)) == []
    objects.content["in/b.csv"] = b"4"
    del objects.content["in/a.csv"]
    assert find_changed(files, tmp_path, properties(objects)) == ["s3://bucket/in/b.csv"]
    assert objects.requests == {"LIST": 1, "HEAD": 4}


def test_a_store_that_refuses_says_which_object(objects: Objects, tmp_path: Path) -> None:
    files = sources.csv("s3://bucket/in/*.csv").list_files(tmp_path, properties(objects))
    objects.refuses = True
    with raises(PipelineError, path="s3://bucket/in/a.csv"):
        find_changed(files, tmp_path, properties(objects))


def test_local_files_that_are_not_what_was_listed_are_found(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.csv"):
        (tmp_path / name).write_text("1")
    files = sources.csv("*.csv").list_files(tmp_path)
    (tmp_path / "b.csv").write_text("12")
    (tmp_path / "c.csv").unlink()
    assert find_changed(files, tmp_path, {}) == ["b.csv"]
