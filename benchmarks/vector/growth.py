"""How an index grows: build time and bytes per query at 100,000, 300,000 and a million vectors, and by formula at more.

The formulas take what does not depend on the machine: the lists that the index has, how many of them a search looks at
(along a line in logarithms through the measured sizes, and at least as many as were measured), and the bytes of the
format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import Figure, Options, compare

SIZES, QUICK_SIZES = (100_000, 300_000, 1_000_000), (2_500, 5_000, 10_000)
FURTHER = (10_000_000, 100_000_000, 1_000_000_000)
DIMENSION = 384
REFINED = 60  # vectors that a search for ten rows compares by their bytes


@dataclass(frozen=True)
class Size:
    """What was measured of an index of some vectors."""

    rows: int
    lists: int
    probed: float
    scored: float


def run_growth(options: Options, folder: Path | None = None) -> list[Figure]:
    """The figures of all sizes, one after the other."""
    from benchmarks.vector.kept import Kept
    from benchmarks.vector.measure import measure_ours
    from benchmarks.vector.sentences import sentences, with_noise

    sizes = QUICK_SIZES if options.quick else SIZES
    real, figures, measured = sentences(max(sizes) if options.quick else None), [], []
    for size in sizes:
        with Kept.at(folder) as kept:
            data = kept.data(size, lambda size=size: with_noise(real, size))  # type: ignore[misc]
            costs = measure_ours(kept, data)
        rows = len(data.vectors)
        figures += [
            compare(f"{rows:,} vectors: {name}", costs[key], None)
            for name, key in {
                "build s": "build_s",
                "build, CPU s": "build_cpu",
                "build, peak MB": "build_mb",
                "index MB": "index_mb",
                "segments": "segments",
                "lists": "lists",
                "lists probed per query": "lists_probed",
                "rows scored per query": "rows_scored",
                "bytes per query": "bytes",
                "ranges per query": "ranges",
                "CPU ms per query": "single_cpu",
                "recall@10": "recall",
            }.items()
        ]
        measured.append(Size(rows, int(costs["lists"]), costs["lists_probed"], costs["rows_scored"]))
    return figures + [figure for rows in FURTHER for figure in predict(rows, measured)]


def predict(rows: int, measured: Sequence[Size]) -> list[Figure]:
    """The same of an index of more rows, by formula."""
    from frazil.vector.build import MOST_SAMPLED, SAMPLED, count_lists
    from frazil.vector.builder import MOST_VECTORS
    from frazil.vector.segment import Shape

    lists, shape = count_lists(rows), Shape(DIMENSION)
    # Noise makes vectors that are nearer to each other than other sentences would be: the number is not let fall.
    extended = _extend([(size.lists, size.probed) for size in measured], lists)
    probed = min(max(extended, *(size.probed for size in measured)), lists)
    scored = probed * rows / lists * float(np.mean([s.scored / (s.probed * s.rows / s.lists) for s in measured]))
    segments = -(-rows // MOST_VECTORS)
    sampled = min(rows, SAMPLED * lists, MOST_SAMPLED)
    figures: dict[str, Any] = {
        "segments, at least": segments,
        "lists": lists,
        "codebook MB": (lists + DIMENSION) * DIMENSION * 4 / 1e6,
        "index MB": rows * (shape.code_row + shape.bytes_row) / 1e6,
        "codes MB": rows * shape.code_row / 1e6,
        "lists probed per query": probed,
        "rows scored per query": scored,
        "bytes per query, at least": scored * shape.code_row + REFINED * shape.bytes_row,
        "ranges per query, at most": segments * probed + REFINED,
        "ranges per query, at most, if each list were in one segment": probed + REFINED,
        "products of lists and vectors, build": (4.0 * sampled + rows) * lists,
    }
    return [compare(f"{rows:,} vectors, by formula: {name}", value, None) for name, value in figures.items()]


def _extend(points: Sequence[tuple[float, float]], at: float) -> float:
    """A line through the logarithms of some points, further on.

    >>> round(_extend([(10, 20), (100, 200)], 1000))
    2000
    """
    known = np.log(np.array(points))
    slope, start = np.polyfit(known[:, 0], known[:, 1], 1)
    return float(np.exp(start + slope * np.log(at)))
