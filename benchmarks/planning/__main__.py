"""`python -m benchmarks.planning [--quick] [--json FILE]`."""

import sys

from benchmarks.planning import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"planning": run}))
