"""The tables of metrics in docs/metrics.md and docs/catalog.md, from the declarations."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.catalog import telemetry
from frazil.metrics import METRICS, Metric
from tools.sections import fill_page, table

HEAD = ("metric", "kind", "labels", "meaning")


def render_page() -> str:
    """docs/metrics.md with the metrics of writers, pipelines, upkeep and the client."""
    return fill_page("docs/metrics.md", "metrics", _table(METRICS))


def render_server_page() -> str:
    """docs/catalog.md with the metrics of the server."""
    return fill_page("docs/catalog.md", "metrics", _table(telemetry.METRICS))


def _table(metrics: Mapping[str, Metric]) -> str:
    rows = ((f"`{name}`", metric.kind, ", ".join(metric.labels), metric.help) for name, metric in metrics.items())
    return table(HEAD, rows)
