"""The console costs a server no library that its pages have not asked for."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ["duckdb", "numpy", "pandas", "pyarrow", "pyiceberg.io.pyarrow", "pyspark", "sqlglot"]


def test_a_server_with_the_console_loads_no_library_for_data_files() -> None:
    program = f"""
import sys
import frazil.catalog.server
from frazil.console import ROUTES
print(len(ROUTES) > 10, [name for name in {HEAVY} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"
