"""The stages of `make test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.together import group_of
from tools.stages import QUICK, STAGES, stage_environment


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
