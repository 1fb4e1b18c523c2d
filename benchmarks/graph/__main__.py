"""`python -m benchmarks.graph [--quick] [--json FILE]`."""

import sys

from benchmarks.graph import run
from benchmarks.report import main

if __name__ == "__main__":
    sys.exit(main({"graph": run}))
