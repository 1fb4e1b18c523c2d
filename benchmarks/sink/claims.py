"""The document's claims of the route through pandas: twice the time and four times the memory of Arrow directly.

Both are judged for each pandas (before version 3, texts are Python objects; from then on, Arrow's) and for both direct
routes: the document's own, `append` of PyIceberg, and the sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.report import Figure, compare
from benchmarks.sink.costs import Cost

TIME, MEMORY = 2.0, 4.0
# to reach: the sink is as far ahead of the pandas that the document was written for
GOALS = {("ours", "CPU s"): TIME, ("ours", "peak MB"): MEMORY}


@dataclass(frozen=True)
class Routes:
    """What the same rows cost directly, by library, and through pandas, by version."""

    direct: Mapping[str, Cost]
    pandas: Mapping[str, Cost]


def claim_figures(routes: Routes) -> list[Figure]:
    """Each direct route next to each pandas, with what was claimed and whether it holds."""
    return [
        figure
        for version, pandas in routes.pandas.items()
        for library, direct in routes.direct.items()
        for figure in _compare(library, direct, version, pandas)
    ]


def _compare(library: str, direct: Cost, version: str, pandas: Cost) -> list[Figure]:
    if pandas.pandas != version:
        raise RuntimeError(f"the case for pandas {version} went through pandas {pandas.pandas}")
    is_old = int(version.split(".")[0]) < 3
    peer = f"through pandas {version}, {'object' if is_old else 'Arrow'} strings"
    values = {
        "s": (direct.wall_s, pandas.wall_s, TIME),
        "CPU s": (direct.cpu_s, pandas.cpu_s, TIME),
        "peak MB": (direct.peak_mb, pandas.peak_mb, MEMORY),
    }
    return [
        compare(
            f"unpartitioned, {library}, {unit}",
            mine,
            theirs,
            peer,
            goal=GOALS.get((library, unit)) if is_old else None,
            claim=claim,
            less_is_better=True,
        )
        for unit, (mine, theirs, claim) in values.items()
    ]
