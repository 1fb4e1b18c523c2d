"""`python -m benchmarks.warm [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.warm import run

if __name__ == "__main__":
    sys.exit(main({"warm": run}))
