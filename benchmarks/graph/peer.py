"""dbt-duckdb in a virtual environment of its own: our constraints hold nothing of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PACKAGES = ("dbt-duckdb==1.11.1", "dbt-core<1.12", "duckdb==1.5.5", "psutil")


def dbt_python(folder: Path) -> Path | None:
    """The interpreter of an environment that has dbt; None if it cannot be installed here."""
    home = folder / "dbt-environment"
    uv = Path(sys.executable).with_name("uv")
    python = home / "bin" / "python"
    created = subprocess.run(
        [str(uv), "venv", "-q", "--python", sys.executable, str(home)], check=False, capture_output=True, text=True
    )
    installed = created.returncode == 0 and subprocess.run(
        [str(uv), "pip", "install", "-q", "--python", str(python), *PACKAGES],
        check=False,
        capture_output=True,
        text=True,
    )
    if installed and installed.returncode == 0:
        return python
    print("  dbt-duckdb cannot be installed here: its figures are left out", file=sys.stderr)
    return None
