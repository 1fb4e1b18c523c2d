"""`python -m benchmarks.catalog [--quick] [--json FILE]`."""

import sys

from benchmarks.catalog import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"catalog": run}))
