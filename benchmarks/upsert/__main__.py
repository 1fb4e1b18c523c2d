"""`python -m benchmarks.upsert [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.upsert import run

if __name__ == "__main__":
    sys.exit(main({"upsert": run}))
