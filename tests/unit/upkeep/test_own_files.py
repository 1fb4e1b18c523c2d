"""Files of one table, as the catalog's own work may reach them."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import UpkeepError
from frazil.upkeep import own_file_io


def test_files_of_other_tables_are_not_read_written_or_deleted(tmp_path: Path) -> None:
    own, other = tmp_path / "t", tmp_path / "u"
    for folder in (own, other):
        folder.mkdir()
    (other / "a").write_bytes(b"1")
    (own / "link").symlink_to(other)
    files = own_file_io({}, [f"file://{own}"])
    for path in (other / "a", other / "new", own / "link" / "a", f"{own}/../u/a", tmp_path / "t2" / "a"):
        for reach in (files.new_input, files.new_output, files.delete):
            with pytest.raises(UpkeepError) as refused:
                reach(f"file://{path}")
            assert refused.value.facts["path"] == f"file://{path}"
    assert (other / "a").read_bytes() == b"1"
    with files.new_output(f"file://{own}/b").create() as created:
        created.write(b"2")
    assert files.new_input(f"file://{own}/b").exists()
    files.delete(f"file://{own}/b")
    assert not (own / "b").exists()
