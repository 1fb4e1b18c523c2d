"""The diagrams of docs/explanation/: who sends what to whom, in order, drawn as SVG files without scripts or fonts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tools.layout import package_graph

COLUMN, LINE, MARGIN, TOP = 190, 46, 95, 66
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif; fill: #1c1e21; }
.lane { font-weight: 600; } .muted { fill: #62666d; } .box { fill: #ffffff; stroke: #d2d3d0; }
.line { stroke: #d2d3d0; stroke-dasharray: 3 4; } .arrow { stroke: #1f6584; stroke-width: 1.6; fill: none; }
.note { fill: #e9f2f6; stroke: #1f6584; } .label { paint-order: stroke; stroke: #fafaf9; stroke-width: 5px; }
.head { fill: #1f6584; } .page { fill: #fafaf9; }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7e9; } .muted { fill: #969ca4; } .box { fill: #1b1f22; stroke: #363b41; } .line { stroke: #363b41; }
  .arrow { stroke: #74b7d4; } .note { fill: #16272f; stroke: #74b7d4; } .label { stroke: #0f1113; }
  .head { fill: #74b7d4; } .page { fill: #0f1113; }
}
"""


@dataclass(frozen=True)
class Message:
    """An arrow between two lanes, or a note at one (`source` is `target`)."""

    source: str
    target: str
    text: str


@dataclass(frozen=True)
class Diagram:
    """Lanes from left to right, messages from top to bottom."""

    title: str
    lanes: tuple[str, ...]
    messages: tuple[Message, ...]


def _messages(*lines: str) -> tuple[Message, ...]:
    """Lines such as `Client -> Server: the request` and `Server: a note`.

    >>> _messages("A -> B: hello", "B: thinks")
    (Message(source='A', target='B', text='hello'), Message(source='B', target='B', text='thinks'))
    """
    messages = []
    for line in lines:
        lanes, _, text = line.partition(": ")
        source, _, target = lanes.partition(" -> ")
        messages.append(Message(source, target or source, text))
    return tuple(messages)


DIAGRAMS = {
    "commit": Diagram(
        "A commit of two tables",
        ("Client", "Server", "Object store", "Database"),
        _messages(
            "Client -> Server: requirements and updates, with a key",
            "Server -> Database: where are the tables now?",
            "Server: decides: new metadata, or a conflict",
            "Server -> Object store: writes two new metadata files",
            "Server -> Database: moves both pointers, if unchanged",
            "Database -> Server: committed",
            "Server -> Client: the answer, kept under the key",
            "Client: no answer? asks again with the same key",
        ),
    ),
    "exactly-once": Diagram(
        "Rows that get in exactly once",
        ("Source", "Writer", "Object store", "Catalog"),
        _messages(
            "Writer -> Catalog: reads the table: progress says offset 500",
            "Source -> Writer: rows from offset 500 on",
            "Writer -> Object store: writes data files: not visible yet",
            "Writer -> Catalog: one commit: files, quarantine, progress 900",
            "Catalog: refuses it if the progress has moved",
            "Writer: killed, or the answer is lost",
            "Writer -> Catalog: reads the table: progress says offset 900",
            "Source -> Writer: rows from offset 900 on",
        ),
    ),
    "vector-index": Diagram(
        "A search for the nearest rows",
        ("Search", "Catalog", "Index files", "Data files"),
        _messages(
            "Search -> Catalog: snapshot, and the record of the index",
            "Search: divides the scan: covered files, and others",
            "Search -> Index files: nearest lists: one bit per dimension",
            "Search -> Index files: the best: one byte per dimension",
            "Search -> Data files: files that no index covers, exactly",
            "Search: masks deleted and filtered rows, merges, cuts at k",
            "Search -> Data files: the columns of these k rows",
        ),
    ),
}


def plots() -> dict[str, str]:
    """Each file below docs/explanation, with its text."""
    files = {f"docs/explanation/{name}.svg": draw(diagram) for name, diagram in DIAGRAMS.items()}
    return files | {"docs/explanation/packages.svg": draw_layers("Packages", package_graph())}


def draw(diagram: Diagram) -> str:
    """The diagram as an SVG file that follows the theme of the reader's system."""
    width = 2 * MARGIN + COLUMN * (len(diagram.lanes) - 1)
    height = TOP + LINE * len(diagram.messages) + 26
    at = {lane: MARGIN + COLUMN * number for number, lane in enumerate(diagram.lanes)}
    lines = _page(diagram.title, width, height)
    for lane, x in at.items():
        lines.append(f'<line class="line" x1="{x}" y1="40" x2="{x}" y2="{height - 14}"/>')
        lines.append(f'<rect class="box" x="{x - 60}" y="12" width="120" height="30" rx="7"/>')
        lines.append(f'<text class="lane" x="{x}" y="32" text-anchor="middle">{escape(lane)}</text>')
    for number, message in enumerate(diagram.messages):
        lines += _message(message, at, TOP + LINE * number + 24, width)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _message(message: Message, at: dict[str, int], y: int, width: int) -> Iterator[str]:
    start, end = at[message.source], at[message.target]
    text = escape(message.text)
    half = 3.4 * len(message.text) + 16
    middle = min(max((start + end) / 2, half + 6), width - half - 6)
    if start == end:
        yield f'<rect class="note" x="{middle - half:.0f}" y="{y - 19}" width="{2 * half:.0f}" height="28" rx="6"/>'
        yield f'<text x="{middle:.0f}" y="{y}" text-anchor="middle">{text}</text>'
        return
    yield f'<path class="arrow" d="M{start} {y + 4}H{end}" marker-end="url(#head)"/>'
    yield f'<text class="label" x="{middle:.0f}" y="{y - 4}" text-anchor="middle">{text}</text>'


def draw_layers(title: str, uses: Mapping[str, Sequence[str]]) -> str:
    """Boxes in layers, each below what it uses; the keys are in an order in which what is used comes first.

    >>> draw_layers("Two", {"a": [], "b": ["a"]}).count("<path class=\\"arrow\\"")
    1
    """
    layers = _layers(uses)
    width = 20 + 130 * max(map(len, layers))
    at = {
        name: (width / 2 + 130 * (place - (len(layer) - 1) / 2), 30 + 74 * number)
        for number, layer in enumerate(layers)
        for place, name in enumerate(layer)
    }
    lines = _page(title, width, 74 * len(layers))
    for name, others in uses.items():
        x, y = at[name]
        for other_x, other_y in (at[other] for other in others):
            middle = (y - 15 + other_y + 15) / 2
            lines.append(
                f'<path class="arrow" d="M{x:.0f} {y - 15:.0f}C{x:.0f} {middle:.0f} {other_x:.0f} {middle:.0f} '
                f'{other_x:.0f} {other_y + 16:.0f}" marker-end="url(#head)"/>'
            )
    for name, (x, y) in at.items():
        lines.append(f'<rect class="box" x="{x - 60:.0f}" y="{y - 15:.0f}" width="120" height="30" rx="7"/>')
        lines.append(f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _layers(uses: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The names by how many steps of use lie above them; in a layer, near what they use."""
    depth: dict[str, int] = {}
    for name, others in uses.items():
        depth[name] = 1 + max((depth[other] for other in others), default=-1)
    layers: list[list[str]] = []
    place: dict[str, float] = {}
    for number in range(max(depth.values()) + 1):
        layer = [name for name in uses if depth[name] == number]
        layer.sort(key=lambda name: sum(place[other] for other in uses[name]) / max(len(uses[name]), 1))
        place |= {name: index - (len(layer) - 1) / 2 for index, name in enumerate(layer)}
        layers.append(layer)
    return layers


def _page(title: str, width: int, height: int) -> list[str]:
    """The beginning of a file: the size, the colours, the head of arrows."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}" rx="10"/>',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>',
    ]
