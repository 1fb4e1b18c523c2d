"""`python -m benchmarks.io [--quick] [--json FILE]`."""

import sys

from benchmarks.io import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"io": run}))
