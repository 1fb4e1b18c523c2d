"""The stages of `make test`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.stages import stage_environment


def test_interpreters_of_a_stage_keep_compiled_modules(tmp_path: Path) -> None:
    (tmp_path / "lonely.py").write_text("x = 1\n")
    environment = stage_environment({"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPYCACHEPREFIX": str(tmp_path / "kept")})

    subprocess.run([sys.executable, "-c", "import lonely"], cwd=tmp_path, env=environment, check=True)

    assert len(list((tmp_path / "kept").rglob("lonely.*.pyc"))) == 1
