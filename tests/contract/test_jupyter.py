"""Notebooks: what the objects of a lake look like, and the magic `%%frazil`, in IPython's own shell."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import frazil
from frazil import notebook
from frazil.catalog import running_catalog
from frazil.errors import ArgumentError, FrazilError
from frazil.lake import Lake, Result
from tests.kit.notebooks import KernelShell, Pages, Shell, open_shell

HOSTILE = "<script>alert('x')</script>"
SHOWN = "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;"


@pytest.fixture(scope="module")
def lake() -> Iterator[Lake]:
    with running_catalog() as catalog, frazil.connect(catalog.uri) as lake:
        columns = frazil.column("id", "long", required=True), frazil.column("site", "string", doc=HOSTILE)
        lake.apply(frazil.Table("lake.events", *columns))
        rows = [{"id": number, "site": HOSTILE if number == 1 else "oslo"} for number in range(100)]
        lake.table("lake.events").append(rows)
        lake.table("lake.events").create_tag(HOSTILE)
        yield lake


@pytest.fixture
def shell(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """IPython with the extension, in an empty folder."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_line_magic("load_ext", "frazil.jupyter")
    shell.user_ns["lake"] = lake
    yield shell
    shell.run_line_magic("unload_ext", "frazil.jupyter")
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()  # gives sys.modules and the builtins back


def run(shell: InteractiveShell, cell: str) -> Any:
    done = shell.run_cell(cell)
    if done.error_in_exec is not None:
        raise done.error_in_exec
    return done.result


def rows(result: Any) -> list[dict[str, Any]]:
    assert isinstance(result, Result)
    return result.to_arrow().to_pylist()


# --- the magic -------------------------------------------------------------------------------------------------------


def test_a_cell_is_a_query_on_the_variable_lake(shell: InteractiveShell) -> None:
    assert rows(run(shell, "%%frazil\nSELECT count(*) AS n\nFROM lake.events;\n")) == [{"n": 100}]


def test_a_line_is_a_query_and_is_not_filled_from_variables(shell: InteractiveShell) -> None:
    shell.user_ns["x"] = "DROP"
    assert rows(run(shell, "%frazil SELECT '{x} $x' AS text")) == [{"text": "{x} $x"}]


def test_options_name_the_lake_the_point_and_the_variable_for_the_result(shell: InteractiveShell, lake: Lake) -> None:
    shell.user_ns["other"] = shell.user_ns.pop("lake")
    before = lake.table("lake.events").history()[-1].snapshot_id
    assert run(shell, f"%%frazil --lake other --at {before} --into kept\nSELECT min(id) AS id FROM lake.events") is None
    assert rows(shell.user_ns["kept"]) == [{"id": 0}]


def test_without_a_variable_the_settings_of_the_folder_name_the_catalog(
    shell: InteractiveShell, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    del shell.user_ns["lake"]
    monkeypatch.setenv("FRAZIL_CATALOG__URI", lake.address.split()[0])
    assert rows(run(shell, "%frazil SELECT max(id) AS id FROM lake.events")) == [{"id": 99}]


@pytest.mark.parametrize(
    "cell",
    [
        "%%frazil\n ",
        "%frazil",
        "%%frazil --nonsense\nSELECT 1",
        "%%frazil --engine mysql\nSELECT 1",
        "%%frazil --into 1x\nSELECT 1",
        "%%frazil --lake missing\nSELECT 1",
        "%%frazil --at 'open\nSELECT 1",
    ],
)
def test_what_cannot_be_understood_is_an_error_and_the_kernel_lives(shell: InteractiveShell, cell: str) -> None:
    with pytest.raises(ArgumentError):
        run(shell, cell)
    assert run(shell, "1 + 1") == 2


def test_an_error_of_a_query_is_the_error_of_the_cell(shell: InteractiveShell) -> None:
    with pytest.raises(FrazilError):
        run(shell, "%%frazil\nSELECT * FROM lake.missing")


# --- how objects look ------------------------------------------------------------------------------------------------


def html(shell: InteractiveShell, value: object) -> str:
    data, _ = shell.display_formatter.format(value)
    page: str = data["text/html"]
    assert "<script" not in page
    return page


def test_tables_scans_explains_and_histories_are_tables_in_which_data_is_text(
    shell: InteractiveShell, lake: Lake
) -> None:
    events = lake.table("lake.events")
    scan = events.scan(f"site = '{HOSTILE.replace(chr(39), chr(39) * 2)}'", limit=10)
    pages = [html(shell, value) for value in (events, scan, scan.explain(), events.history())]
    for page, word in zip(pages, ("site", "limit", "to read", "append"), strict=True):
        assert (SHOWN in page, word in page) == (True, True)
    assert "lake.events" in html(shell, lake.tables())


def test_a_result_shows_its_first_rows_and_can_still_be_read(shell: InteractiveShell, lake: Lake) -> None:
    result = lake.sql("SELECT id, site, id AS id FROM lake.events ORDER BY lake.events.id")
    page = html(shell, result)
    assert (page.count("<tr>"), SHOWN in page, "first 20 rows" in page) == (21, True, True)
    assert page.count("<td") == 60
    assert result.to_arrow().num_rows == 100


def test_what_cannot_be_shown_as_a_table_is_shown_as_text(shell: InteractiveShell, lake: Lake) -> None:
    streamed = lake.sql("SELECT 1 AS one")
    streamed.to_batches().read_all()
    for value in (streamed, lake.table("lake.missing")):
        data, _ = shell.display_formatter.format(value)
        assert list(data) == ["text/plain"]


# --- progress --------------------------------------------------------------------------------------------------------


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    """What a notebook shows."""
    with open_shell(KernelShell, tmp_path) as pages:
        yield pages


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Pages]:
    with open_shell(Shell, tmp_path) as pages:
        yield pages


def test_a_bar_is_drawn_again_in_its_place_and_ends_as_text(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "POLL_SECONDS", 0.001)
    with notebook.showing_progress(HOSTILE, "files", total=4) as bar:
        assert bar is not None
        assert pages.drawn.wait(60)
        bar.done = 3
        while "3 of 4 files" not in pages.sent[-1][0]["text/plain"]:
            pages.drawn.clear()
            assert pages.drawn.wait(60)
        half = pages.sent[-1][0]["text/html"]
    assert half.startswith('<progress value="3" max="4"></progress>')
    assert all(SHOWN in page["text/html"] and "<script" not in page["text/html"] for page, _, _ in pages.sent)
    assert "<progress" not in pages.sent[-1][0]["text/html"]
    assert len({name for _, name, _ in pages.sent}) == 1
    assert [update for _, _, update in pages.sent] == [False, *[True] * (len(pages.sent) - 1)]


def test_scans_queries_and_upkeep_show_what_they_have_done(pages: Pages, lake: Lake) -> None:
    events = lake.table("lake.events")
    events.scan().to_arrow()
    assert pages.last == "reading lake.events: 1 of 1 files, 100 rows"
    events.scan("id < 0").to_pandas()
    assert pages.last == "reading lake.events: 0 of 0 files"
    lake.sql("SELECT id FROM lake.events WHERE id < 10").to_pandas()
    assert pages.last == "query: 10 rows"
    events.maintain("compact", "manifests")
    assert pages.last == "maintaining lake.events: 2 of 2 steps"


def test_a_call_that_fails_leaves_no_bar(pages: Pages) -> None:
    with pytest.raises(ZeroDivisionError), notebook.showing_progress("broken", "rows"):
        raise ZeroDivisionError
    assert "<progress" not in pages.sent[-1][0]["text/html"]
    assert "frazil-notebook" not in {thread.name for thread in threading.enumerate()}


def test_a_shell_in_a_terminal_shows_no_bar(terminal: Pages, lake: Lake) -> None:
    assert lake.table("lake.events").scan().to_arrow().num_rows == 100
    assert lake.sql("SELECT 1 AS one").to_arrow().num_rows == 1
    assert terminal.sent == []
