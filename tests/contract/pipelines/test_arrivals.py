"""Landing files compared with a real ledger: path and content decide, not the modification time."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from frazil import Table, column
from frazil.client import FrazilCatalog
from frazil.errors import PipelineError
from frazil.pipelines import sources
from frazil.pipelines.batch.arrivals import Arrivals, compare_with_ledger, find_copies, local_digest, with_content
from frazil.pipelines.ledger import ledger_of, ledger_rows, open_companion
from frazil.pipelines.sources import SourceFile
from tests.kit.raising import raises


@dataclass
class Landing:
    """A folder of landing files and the ledger of what is loaded from it."""

    folder: Path
    catalog: FrazilCatalog

    @property
    def declared(self) -> Table:
        return ledger_of(Table(f"lake.t{self.folder.name.replace('-', '_')}", column("id", "long")))

    def write(self, name: str, text: str, mtime_ns: int) -> None:
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, ns=(mtime_ns, mtime_ns))

    def listing(self) -> list[SourceFile]:
        return sources.csv("*.csv").list_files(self.folder)

    def compare(self) -> Arrivals:
        return compare_with_ledger(
            self.listing(), open_companion(self.declared, self.catalog), "p", digest=local_digest(self.folder)
        )

    def load(self) -> list[SourceFile]:
        """What a run appends to the ledger."""
        arrived = self.compare()
        files = with_content(arrived.files, local_digest(self.folder))
        self.note(*files, *arrived.touched)
        return files

    def note(self, *files: SourceFile, pipeline: str = "p") -> None:
        ledger = open_companion(self.declared, self.catalog)
        ledger.append(ledger_rows(files, pipeline=pipeline, run_id="1", ledger=ledger))

    def names(self) -> dict[str, list[str]]:
        arrived = self.compare()
        kinds = {"new": arrived.new, "changed": arrived.changed, "touched": arrived.touched}
        return {kind: [file.path for file in files] for kind, files in kinds.items() if files}


@pytest.fixture
def landing(tmp_path: Path, catalog: FrazilCatalog) -> Landing:
    return Landing(tmp_path, catalog)


def test_a_touched_file_is_not_loaded_again(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.load()
    landing.write("a.csv", "1\n", 2)
    assert landing.names() == {"touched": ["a.csv"]}


def test_a_copy_over_the_same_path_is_not_loaded_again(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.load()
    shutil.copy(landing.folder / "a.csv", landing.folder / "_backup")
    shutil.copy(landing.folder / "_backup", landing.folder / "a.csv")
    assert landing.names() == {"touched": ["a.csv"]}


def test_a_touched_file_that_a_load_noted_is_not_read_again(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.load()
    landing.write("a.csv", "1\n", 2)
    landing.write("b.csv", "2\n", 1)
    landing.load()

    def refuse(file: SourceFile) -> str:
        raise AssertionError(f"{file.path} was read")

    assert (
        compare_with_ledger(landing.listing(), open_companion(landing.declared, landing.catalog), "p", digest=refuse)
        == Arrivals()
    )


@pytest.mark.parametrize("text", ["2\n", "1\n2\n"])
def test_a_known_path_with_other_content_has_changed(landing: Landing, text: str) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.load()
    landing.write("a.csv", text, 2)
    assert landing.names() == {"changed": ["a.csv"]}


def test_a_file_that_goes_back_to_a_former_content_has_changed_again(landing: Landing) -> None:
    for number, text in enumerate(["1\n", "2\n"]):
        landing.write("a.csv", text, number)
        landing.load()
    landing.write("a.csv", "1\n", 0)  # with its former time, as rsync --times restores it
    assert landing.names() == {"changed": ["a.csv"]}
    (file,) = landing.load()
    assert (file.tag.split()[-1], landing.names()) == ("#3", {})


def test_rows_of_older_releases_know_a_file_by_its_time_alone(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.note(SourceFile("a.csv", 2, "1"), SourceFile("a.csv", 2, "5"))
    assert landing.names() == {}
    landing.write("a.csv", "1\n", 5)
    assert landing.names() == {}
    landing.write("a.csv", "1\n", 7)
    assert landing.names() == {"changed": ["a.csv"]}


def test_objects_are_compared_by_their_etag_and_not_read(landing: Landing) -> None:
    a, b = SourceFile("s3://b/a.csv", 2, '"x"'), SourceFile("s3://b/b.csv", 2, '"y"')
    assert with_content([a, b], local_digest(landing.folder)) == [a, b]
    landing.note(a, b)
    ledger = open_companion(landing.declared, landing.catalog)
    now = [a, replace(b, tag='"z"')]
    arrived = compare_with_ledger(now, ledger, "p", digest=local_digest(landing.folder))
    # an ETag may differ for the same content
    assert arrived == Arrivals(changed=(replace(b, tag='"z" #2'),), unverified=(b.path,))


def test_what_another_pipeline_loaded_is_new_to_this_one(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.note(*landing.listing(), pipeline="other")
    assert landing.names() == {"new": ["a.csv"]}


def test_content_that_another_path_brought_is_named(landing: Landing) -> None:
    landing.write("a.csv", "1\n", 1)
    landing.load()
    for name, text in (("b.csv", "1\n"), ("c.csv", "2\n"), ("d.csv", "2\n"), ("e.csv", ""), ("f.csv", "")):
        landing.write(name, text, 1)
    arrived = landing.compare()
    files = with_content(arrived.files, local_digest(landing.folder))
    assert [file.path for file in files] == ["b.csv", "c.csv", "d.csv", "e.csv", "f.csv"]
    assert find_copies(files, arrived) == {"b.csv": "a.csv", "d.csv": "c.csv"}
    assert find_copies(files, Arrivals(tuple(files))) == {"d.csv": "c.csv"}


def test_a_file_that_cannot_be_read_is_named(landing: Landing) -> None:
    with raises(PipelineError, path=re.compile(r"gone\.csv$")):
        with_content([SourceFile("gone.csv", 1, "1")], local_digest(landing.folder))


def test_ten_thousand_files_are_looked_up_in_a_moment(landing: Landing) -> None:
    files = [SourceFile(f"landing/2024/sales-{number:06}.csv", number, str(number)) for number in range(10_000)]
    landing.note(*(replace(file, tag=f"{file.tag} sha256:{'0' * 64}") for file in files[:-1]))
    ledger = open_companion(landing.declared, landing.catalog)
    begun = time.process_time()
    assert compare_with_ledger(files, ledger, "p", digest=str) == Arrivals((files[-1],))
    assert time.process_time() - begun < 5
