"""`python -m benchmarks.console [--quick] [--json FILE]`."""

import sys

from benchmarks.console import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"console": run}))
