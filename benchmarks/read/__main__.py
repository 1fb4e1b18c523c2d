"""`python -m benchmarks.read [--quick] [--json FILE]`."""

import sys

from benchmarks.read import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"read": run}))
