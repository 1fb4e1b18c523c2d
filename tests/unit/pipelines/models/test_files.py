"""Models in files: `models/gold/revenue.sql`."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.errors import DeclarationError, FrazilError, ProjectError
from frazil.pipelines.models import load_models
from tests.kit.raising import raises

REVENUE = """\
-- Revenue of each order.
-- mode: upsert
-- key: order_id, country
-- partition_by: day(ts), bucket(4, order_id)
-- tags: daily, finance
-- group: gold
-- check: amount >= 0
-- check: country <> ''
-- audit: amount < 10000
-- doc: What was paid
-- doc: and where.
-- TODO: more countries

SELECT order_id, country, ts, amount FROM silver.orders  -- mode: append
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_declares_a_model_with_its_header(tmp_path: Path) -> None:
    path = write(tmp_path, "gold/revenue.sql", REVENUE)
    (revenue,) = load_models(tmp_path)
    assert (revenue.name, revenue.path, revenue.sql, revenue.inputs) == (
        "gold.revenue",
        path,
        REVENUE.rstrip(),
        ("silver.orders",),
    )
    assert (revenue.mode, revenue.mode_reason, revenue.key, revenue.partition_by, revenue.driving) == (
        "upsert",
        "declared",
        ("order_id", "country"),
        ("day(ts)", "bucket(4, order_id)"),
        "silver.orders",
    )
    assert (revenue.tags, revenue.group, revenue.doc) == (("daily", "finance"), "gold", "What was paid and where.")
    assert (revenue.checks, revenue.audit) == (("amount >= 0", "country <> ''"), ("amount < 10000",))


def test_files_are_read_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name in ("b/two.sql", "a/one.sql", "a/_draft.sql", ".old/x/y.sql", "a/notes.txt"):
        write(tmp_path, name, "SELECT 1 AS n")
    write(tmp_path, "any/where.sql", "-- name: gold.named\nSELECT 1 AS n")
    assert [model.name for model in load_models(tmp_path)] == ["a.one", "gold.named", "b.two"]


def test_a_project_without_the_folder_has_no_files(tmp_path: Path) -> None:
    assert load_models(tmp_path) == ()


@pytest.mark.parametrize(
    ("text", "error", "facts"),
    [
        ("-- mode: upsert\n-- keys: id\nSELECT 1 AS id", ProjectError, {"line": 2, "name": "keys"}),
        ("-- mode:\nSELECT 1 AS id", ProjectError, {"line": 1, "name": "mode"}),
        ("-- mode: append\n-- mode: upsert\nSELECT 1 AS id", ProjectError, {"line": 2, "name": "mode"}),
        ("\n-- mode: merge\nSELECT 1 AS id FROM s.x", DeclarationError, {"line": 2, "option": "mode"}),
        ("-- tags: a b\nSELECT 1 AS id", DeclarationError, {"line": 1, "option": "tags"}),
        ("-- doc: x\n\nSELECT *\nFROM s.x WHERE (", DeclarationError, {"line": 4, "problem": "syntax"}),
        ("-- doc: nothing follows\n", DeclarationError, {"line": None, "problem": "empty"}),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, text: str, error: type[FrazilError], facts: dict) -> None:
    path = write(tmp_path, "gold/t.sql", text)
    with raises(error, path=str(path), **facts) as caught:
        load_models(tmp_path)
    assert str(caught.value).startswith(f"{path}:{facts['line']}" if facts["line"] else str(path))


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "gold/t.sql", "")
    path.write_bytes(b"SELECT '\xe9' AS x")
    with raises(ProjectError, path=str(path)):
        load_models(tmp_path)
