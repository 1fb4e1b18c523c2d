"""The stages of `make test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.together import group_of
from tools.spark_archive import archive_options, archive_path
from tools.stages import QUICK, SPARK_STAGE, STAGES, making_archive, stage_environment


def test_interpreters_of_a_stage_keep_compiled_modules(tmp_path: Path) -> None:
    (tmp_path / "lonely.py").write_text("x = 1\n")
    environment = stage_environment({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")})

    subprocess.run([sys.executable, "-c", "import lonely"], cwd=tmp_path, env=environment, check=True)

    assert len(list((tmp_path / "kept").rglob("lonely.*.pyc"))) == 1


def test_files_that_name_a_stack_run_in_one_process(tmp_path: Path) -> None:
    texts = {
        "a": "def test_a(live_stack): ...",
        "b": "def test_b(live_stack): spark_session()",
        "c": "def test_c(tmp_path): ...",
    }
    for name, text in texts.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    groups = [group_of(tmp_path / f"test_{name}.py") for name in texts]
    assert groups == ["live_stack", "live_stack", str(tmp_path / "test_c.py")]


def test_the_quick_stages_name_files_that_exist_and_are_part_of_make_test() -> None:
    chosen = [word for command in QUICK.values() for word in command if word.startswith("tests/")]
    whole = [word for command in STAGES.values() for word in command if word.startswith("tests/")]
    assert all(Path(word).exists() and word.startswith(tuple(whole)) for word in chosen)


def test_an_archive_of_sparks_classes_is_used_once_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert archive_options() == ""
    archive_path().touch()
    assert f"-XX:SharedArchiveFile={archive_path()}" in archive_options()


def test_an_archive_is_made_only_next_to_the_stage_that_starts_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command: started.append(command) or popen(["true"]))
    for stages in (["ruff", "unit"], [SPARK_STAGE]):
        with making_archive(stages) as wait:
            assert not wait()
    assert [command[1:] for command in started] == [["-m", "tools.spark_archive"]]
