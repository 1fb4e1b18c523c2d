"""`python -m benchmarks.upkeep [--quick] [--json FILE] [--series FILE]`."""

import argparse
import functools
import sys
from pathlib import Path

from benchmarks.report import main
from benchmarks.upkeep import run_series

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--series", type=Path)
    own, others = parser.parse_known_args()
    sys.exit(main({"upkeep": functools.partial(run_series, series=own.series)}, others))
