"""Metrics: what is recorded, by whom, and how Prometheus reads it."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from frazil import metrics
from frazil.metrics import METRICS, Metric, NoMetrics, Prometheus

ROOT = Path(__file__).resolve().parents[2]


def test_counters_gauges_and_histograms_render_as_prometheus_reads_them() -> None:
    known = {
        "rows_total": Metric("counter", "Rows.", ("table",)),
        "lag": Metric("gauge", "Lag."),
        "seconds": Metric("histogram", "Time.", ("step",)),
    }
    report = Prometheus(known, buckets=(0.1, 1.0))
    report.count("rows_total", 2, table="a.b")
    report.count("rows_total", 3, table="a.b")
    report.gauge("lag", 7)
    report.gauge("lag", 4)
    for value in (0.1, 0.5, 9.0):
        report.observe("seconds", value, step="compact")
    assert report.render().splitlines() == [
        "# HELP rows_total Rows.",
        "# TYPE rows_total counter",
        'rows_total{table="a.b"} 5',
        "# HELP lag Lag.",
        "# TYPE lag gauge",
        "lag 4",
        "# HELP seconds Time.",
        "# TYPE seconds histogram",
        'seconds_bucket{step="compact",le="0.1"} 1',
        'seconds_bucket{step="compact",le="1.0"} 2',
        'seconds_bucket{step="compact",le="+Inf"} 3',
        'seconds_count{step="compact"} 3',
        f'seconds_sum{{step="compact"}} {9.6:.17g}',
    ]


def test_threads_lose_no_count() -> None:
    report = Prometheus({"n": Metric("counter", "N.")})
    threads = [threading.Thread(target=lambda: [report.count("n") for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert report.counts() == {"n": 4000.0}


def test_nothing_is_recorded_unless_asked_for() -> None:
    assert isinstance(metrics.current(), NoMetrics)
    report = Prometheus()
    before = metrics.use(report)
    try:
        assert metrics.current() is report
    finally:
        assert metrics.use(before) is report
    assert isinstance(metrics.current(), NoMetrics)


def test_every_metric_of_the_code_is_declared_and_documented() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    recorded = set(re.findall(r"\.(?:count|observe|gauge)\(\s*\"(frazil_\w+)\"", sources))
    assert recorded == set(METRICS)
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    assert [name for name in METRICS if f"`{name}`" not in page] == []


@pytest.mark.parametrize(("name", "metric"), METRICS.items())
def test_names_follow_prometheus_conventions(name: str, metric: Metric) -> None:
    assert re.fullmatch(r"frazil_[a-z_]+", name)
    assert name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
