"""`python -m benchmarks.vector [--quick] [--json FILE]`, or with `--growth`: our index alone, at growing sizes."""

import sys

from benchmarks.report import main
from benchmarks.vector import run
from benchmarks.vector.growth import run_growth

if __name__ == "__main__":
    growth = "--growth" in sys.argv
    arguments = [argument for argument in sys.argv[1:] if argument != "--growth"]
    sys.exit(main({"vector --growth": run_growth} if growth else {"vector": run}, arguments))
