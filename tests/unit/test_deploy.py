"""The dashboard and the alert rules in deploy/: every metric and label in them is one that Frazil has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from frazil import metrics
from frazil.catalog.telemetry import KNOWN
from frazil.metrics import Metric
from frazil.pipelines.stream.progress import StreamProgress

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/frazil.json").read_text("utf-8"))
RULES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
STREAM = StreamProgress("p", "t", lag=1, committed_at=1.0).render()
METRICS = {
    **KNOWN,
    **metrics.METRICS,
    **{name: Metric(kind, "", ("pipeline",)) for name, kind in re.findall(r"# TYPE (\w+) (\w+)", STREAM)},
    "up": Metric("gauge", "of Prometheus itself"),
}
SCRAPED = {"job", "instance", "le"}  # what Prometheus adds, and the buckets of histograms
EXPRESSIONS = [
    *(pytest.param(alert["expr"], id=alert["alert"]) for alert in ALERTS),
    *(
        pytest.param(target["expr"], id=f"{panel['title']} {target['refId']}")
        for panel in PANELS
        for target in panel["targets"]
    ),
]


def metric_of(name: str) -> Metric | None:
    """The metric of that series; histograms have three."""
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    if base != name and base in METRICS:
        return METRICS[base] if METRICS[base].kind == "histogram" else None
    return METRICS.get(name)


def series_in(expression: str) -> list[tuple[str, set[str]]]:
    """Each metric with the labels that are asked of it."""
    matches = re.findall(r"\b((?:frazil|process)_\w+|up)\b(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+)\s*[=!]", labels))) for name, labels in matches]


def parse(expression: str) -> promql_parser.Expr:
    """The expression as Prometheus reads it, with a time in place of Grafana's interval."""
    return promql_parser.parse(expression.replace("$__rate_interval", "5m"))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_one_of_prometheus(expression: str) -> None:
    parse(expression)


@pytest.mark.parametrize("expression", ["rate(up)", "sum by (job (up)", "up{job='a}", "nonsense(up)"])
def test_the_parser_refuses_what_prometheus_refuses(expression: str) -> None:
    with pytest.raises(ValueError):
        parse(expression)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_is_known(expression: str) -> None:
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", group)}
    labels_of_all = set(SCRAPED)
    assert series_in(expression)
    for name, labels in series_in(expression):
        metric = metric_of(name)
        assert metric is not None, name
        assert labels <= {*metric.labels, *SCRAPED}, name
        labels_of_all |= set(metric.labels)
    assert grouped <= labels_of_all
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_counters_are_read_as_rates_and_gauges_are_not(expression: str) -> None:
    for name, _ in series_in(expression):
        metric = metric_of(name)
        assert metric is not None
        assert (metric.kind != "gauge") == bool(re.search(rf"(?:rate|increase)\({name}\b", expression)), name


def test_alerts_say_what_they_are_about_and_the_guide_says_what_to_do() -> None:
    guide = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert [alert["alert"] for alert in ALERTS if f"`{alert['alert']}`" not in guide] == []
    assert {alert["labels"]["severity"] for alert in ALERTS} == {"page", "ticket"}
    assert all(alert["annotations"]["summary"] for alert in ALERTS)


def test_panels_do_not_overlap() -> None:
    taken = [
        (place["x"] + column, place["y"] + line)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for column in range(place["w"])
        for line in range(place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(column for column, _ in taken) < 24
