"""`python -m benchmarks.transpile [--quick] [--json FILE]`."""

import sys

from benchmarks.report import main
from benchmarks.transpile import run

if __name__ == "__main__":
    sys.exit(main({"transpile": run}))
