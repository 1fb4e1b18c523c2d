"""`python -m benchmarks.stream [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.stream import run

if __name__ == "__main__":
    sys.exit(main({"stream": run}))
