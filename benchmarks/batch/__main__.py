"""`python -m benchmarks.batch [--quick] [--json FILE]`."""

import sys

from benchmarks.batch import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"batch": run}))
