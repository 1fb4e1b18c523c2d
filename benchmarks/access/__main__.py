"""`python -m benchmarks.access [--quick] [--json FILE]`."""

import sys

from benchmarks.access import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"access": run}))
