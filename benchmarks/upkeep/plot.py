"""`python -m benchmarks.upkeep.plot SERIES SVG`: draws data files and plan times over time, with upkeep and without."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, GAP = 720, 180, 60, 30, 60
COLOURS = {"with upkeep": "#1f77b4", "without": "#d62728"}
PANELS = (("files", "data files"), ("plans", "time to plan a scan, ms"))
Samples = Sequence[Sequence[float]]


def draw(series: Mapping[str, Mapping[str, Samples]]) -> str:
    """The SVG: a panel for each measure, a line for each case.

    >>> svg = draw({"with upkeep": {"files": [[0, 1], [60, 2]], "plans": [[0, 1], [60, 1]]}})
    >>> svg.count("<polyline"), svg.startswith("<svg")
    (2, True)
    """
    height = TOP + len(PANELS) * (HEIGHT + GAP)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">']
    lines.append(f'<rect width="{WIDTH}" height="{height}" fill="white"/>')
    for number, (key, title) in enumerate(PANELS):
        lines += _panel(title, {case: data[key] for case, data in series.items()}, TOP + number * (HEIGHT + GAP))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _panel(title: str, cases: Mapping[str, Samples], top: float) -> list[str]:
    right = max(sample[0] for samples in cases.values() for sample in samples) or 1
    most = max(sample[1] for samples in cases.values() for sample in samples) or 1
    lines = [_text(LEFT, top - 8, title, "start"), _text(LEFT - 6, top + 10, f"{most:,.0f}", "end")]
    lines += [_text(LEFT - 6, top + HEIGHT, "0", "end"), _text(WIDTH - 10, top + HEIGHT + 18, f"{right:,.0f} s", "end")]
    width = WIDTH - LEFT - 10
    lines.append(f'<rect x="{LEFT}" y="{top}" width="{width}" height="{HEIGHT}" fill="none" stroke="#999"/>')
    for number, (case, samples) in enumerate(cases.items()):
        points = " ".join(f"{LEFT + x / right * width:.1f},{top + HEIGHT - y / most * HEIGHT:.1f}" for x, y in samples)
        colour = COLOURS.get(case, "#333")
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines.append(_text(WIDTH - 120, top + 16 + number * 16, case, "start", colour))
    return lines


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    return f'<text x="{x}" y="{y}" font-size="12" text-anchor="{anchor}" fill="{colour}">{text}</text>'


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw(json.loads(Path(sys.argv[1]).read_text())))
