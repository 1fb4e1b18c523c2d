"""`python -m benchmarks.vector [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.vector import run

if __name__ == "__main__":
    sys.exit(main({"vector": run}))
