"""`python -m benchmarks.contention [--quick] [--json FILE]`."""

import sys

from benchmarks.contention import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"contention": run}))
