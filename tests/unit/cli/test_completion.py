"""Completion works as docs/cli.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_shell_completes_commands_and_their_options(tmp_path: Path) -> None:
    def complete(words: str, position: int) -> list[str]:
        environ = {**os.environ, "_FRAZIL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        command = [str(Path(sys.executable).parent / "frazil")]
        return subprocess.run(
            command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    assert (complete("frazil sta", 1), complete("frazil up --w", 2)) == (["plain,status"], ["plain,--with"])
