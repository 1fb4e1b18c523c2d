"""`python -m benchmarks.sink [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.sink import run

if __name__ == "__main__":
    sys.exit(main({"sink": run}))
