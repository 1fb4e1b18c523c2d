"""docs/benchmarks.md and its plots, from the record of full runs in docs/benchmarks.json."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs/benchmarks.json"
WIDTH, LABEL, ROW, TOP, BOTTOM = 960, 460, 20, 24, 26
OURS, BEHIND, GRID, TEXT = "#2f6fb0", "#b5653a", "#8884", "#777"
Json = Mapping[str, Any]

HEAD = """# Benchmarks

Every figure that a full run of `make bench` has printed last, next to its peer in the same run and to its goal. A ratio
says how many times better Frazil is: more rows, less time, less memory. Machines are noisy, so the ratio counts, not
the value.

<!-- shown: hours of an idle machine -->
```sh
make bench                          # all of them: hours, on an idle machine
.venv/bin/python -m benchmarks.catalog --record docs/benchmarks.json    # one of them
make docs                           # writes this page
```

In the plots, bars to the right of the line are figures in which Frazil is ahead; a tick is the goal. A benchmark
that is not on this page has no full run on record yet.
"""


def render_page() -> str:
    """docs/benchmarks.md as it should be."""
    return "\n".join([HEAD, *(_section(name, run) for name, run in _runs().items())])


def plots() -> dict[str, str]:
    """The plots by the name of their file: one for each benchmark that has ratios."""
    drawn = {name: [f for f in run["figures"] if f["ratio"]] for name, run in _runs().items()}
    return {f"docs/benchmarks/{name}.svg": draw(figures) for name, figures in drawn.items() if figures}


def _runs() -> dict[str, Json]:
    runs: dict[str, Json] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return runs


def _section(name: str, run: Json) -> str:
    versions = ", ".join(f"{peer} {version}" for peer, version in run["versions"].items())
    lines = [f"## {name}", "", _about(name), ""]
    lines += [f"Measured on {run['date']} at `{run['commit']}` in {_minutes(run['seconds'])}: {run['machine']}."]
    lines += [f"Versions: {versions}."] if versions else []
    if any(figure["ratio"] for figure in run["figures"]):
        lines += ["", f"![{name}: ratios to the peers](benchmarks/{name}.svg)"]
    for plot in sorted(RECORD.with_suffix("").glob(f"{name}-*.svg")):  # that the run has drawn itself
        lines += ["", f"![{plot.stem.replace('-', ' ')}](benchmarks/{plot.name})"]
    return "\n".join([*lines, "", *_table(run["figures"]), ""])


def _about(name: str) -> str:
    """The first sentences of what the benchmark says about itself."""
    module = ast.parse((ROOT / "benchmarks" / name / "__init__.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(module) or "").partition("\n\n")[0]


def _minutes(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{round(seconds / 60)} minutes"


def _table(figures: Sequence[Json]) -> list[str]:
    """The figures as a table in Markdown; claims have a column where there are some.

    >>> one = {"figure": "rows/s", "ours": 2.0, "peer": 1.0, "peer_name": "x", "ratio": 2.0, "goal": 3.0, "met": False}
    >>> _table([one | {"claim": None}])[2]
    '| rows/s | 2 | 1 | x | 2x | 3x, **missed** |'
    """
    claims = any(figure["claim"] for figure in figures)
    head = ["figure", "ours", "peer", "peer is", "ratio", "goal", *(["claim"] if claims else [])]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for figure in figures:
        cells = [_cell(figure["figure"]), f"{figure['ours']:,g}", _number(figure["peer"])]
        cells += [
            _cell(figure["peer_name"] or ""),
            _judged(figure["ratio"], None),
            _judged(figure["goal"], figure["met"]),
        ]
        cells += [_judged(figure["claim"], figure["holds"])] if claims else []
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,g}"


def _judged(times: float | None, holds: bool | None) -> str:
    if times is None:
        return ""
    return f"{times:g}x{ {True: ', met', False: ', **missed**', None: ''}[holds] }"


def draw(figures: Sequence[Json]) -> str:
    """Bars of ratios on a logarithmic axis, from 1 to the left (behind) or right (ahead).

    >>> svg = draw([{"figure": "a < b", "peer_name": "x", "ratio": 2.0, "goal": None}])
    >>> svg.count("<rect"), "a &lt; b" in svg
    (1, True)
    """
    ends = [value for figure in figures for value in (figure["ratio"], figure["goal"]) if value] + [0.5, 2]
    low, high = (math.log10(value) for value in (min(ends) / 1.1, max(ends) * 1.1))
    height = TOP + ROW * len(figures) + BOTTOM

    def x(value: float) -> float:
        return LABEL + (math.log10(value) - low) / (high - low) * (WIDTH - LABEL - 60)

    bottom = height - BOTTOM
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">']
    for mark in _marks(low, high):
        lines.append(f'<path d="M{x(mark):.1f} {TOP}V{bottom}" stroke="{GRID}"/>')
        lines.append(_text(x(mark), bottom + 16, f"{mark:g}x", "middle"))
    for row, figure in enumerate(figures):
        lines += _bar(figure, x, TOP + row * ROW)
    lines.append(f'<path d="M{x(1):.1f} {TOP}V{bottom}" stroke="{TEXT}" stroke-width="1.5"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _marks(low: float, high: float) -> list[float]:
    """Round numbers between two powers of ten: fewer where there is much in between.

    >>> _marks(-0.4, 0.4), _marks(-1, 2)
    ([0.5, 1.0, 2.0], [0.1, 1.0, 10.0, 100.0])
    """
    steps = (1, 2, 5) if high - low < 1.5 else (1,)
    values = [float(f"{step}e{power}") for power in range(-4, 6) for step in steps]
    return [value for value in values if 10**low <= value <= 10**high]


def _bar(figure: Json, x: Any, top: float) -> list[str]:
    label, ratio = figure["figure"], figure["ratio"]
    label += f" ({figure['peer_name']})" if figure["peer_name"] else ""
    left, right = sorted((x(1), x(ratio)))
    colour = OURS if ratio >= 1 else BEHIND
    lines = [_text(LABEL - 8, top + 14, label if len(label) < 72 else f"{label[:70]}…", "end")]
    size = f'width="{max(right - left, 1):.1f}" height="{ROW - 8}"'
    lines.append(f'<rect x="{left:.1f}" y="{top + 4}" {size} fill="{colour}"/>')
    lines.append(_text(right + 6, top + 14, f"{ratio:g}x", "start"))
    if figure["goal"]:
        lines.append(f'<path d="M{x(figure["goal"]):.1f} {top + 1}v{ROW - 2}" stroke="#c22" stroke-width="2"/>')
    return lines


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="11" text-anchor="{anchor}" fill="{TEXT}">{escape(text)}</text>'
