"""`python -m benchmarks.vector [--quick] [--json FILE] [--keep FOLDER] [--peers NAMES]`, or with `--growth`: our index
alone, at growing sizes. Commands that keep their measurements in one folder share them.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from benchmarks.report import main
from benchmarks.vector.growth import run_growth
from benchmarks.vector.measure import measure_all

if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--peers", type=lambda text: text.split(","))
    own, others = parser.parse_known_args()
    runs = (
        {"vector --growth": partial(run_growth, folder=own.keep)}
        if own.growth
        else {"vector": partial(measure_all, folder=own.keep, peers=own.peers)}
    )
    sys.exit(main(runs, others))
