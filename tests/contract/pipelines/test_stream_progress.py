"""What a stream tells of itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from frazil import metrics
from frazil.pipelines.stream.progress import StreamProgress, serving_metrics


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def test_metrics_and_progress_are_answered_as_they_are_now() -> None:
    progress = StreamProgress("uplink", "l.uplink", lag=7)
    with serving_metrics(progress, 0) as port:
        progress.count(900, 100, 2.0, 42)
        lines = [line for line in get(port, "/metrics").splitlines() if not line.startswith("#")]
        document = json.loads(get(port, "/progress"))
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(port, "/")
    assert lines[:6] == [
        'frazil_stream_rows_total{pipeline="uplink"} 900',
        'frazil_stream_quarantined_total{pipeline="uplink"} 100',
        'frazil_stream_batches_total{pipeline="uplink"} 1',
        'frazil_stream_lag_messages{pipeline="uplink"} 7',
        'frazil_stream_batch_seconds{pipeline="uplink"} 2',
        'frazil_stream_batch_rows_per_second{pipeline="uplink"} 500',
    ]
    assert (document["rows"], document["snapshot_id"], document["rows_per_second"]) == (900, 42, 500.0)


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 200), ("localhost:1", 200), ("pages.example", 403)])
def test_pages_are_not_served_under_other_names_than_those_of_this_machine(host: str, status: int) -> None:
    """Else a web page could read them that points a name of its own to 127.0.0.1."""
    with serving_metrics(StreamProgress("uplink", "l.uplink"), 0) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": host})
        try:
            answer = urllib.request.urlopen(request, timeout=60)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            assert (answer.status, b"uplink" in answer.read()) == (status, status == 200)


def test_the_outcomes_of_changes_are_counted_apart_and_rows_are_those_inserted_or_updated() -> None:
    progress = StreamProgress("crm", "l.crm")
    outcomes = {"inserted": 3, "updated": 2, "deleted": 1, "unchanged": 1, "duplicates": 4, "rows": 5}
    for _ in range(2):
        progress.count(11, 1, 2.0, 42, merged=outcomes)
    progress.count(7, 0, 1.0, 43)  # a merge of which nothing is known
    lines = [line.split("}")[1] for line in progress.render().splitlines() if not line.startswith("#")][:6]
    assert lines == [" 17", " 6", " 4", " 2", " 2", " 8"]
    assert (progress.rows, progress.rows_in) == (17, 31)


def test_the_last_progress_is_left_in_a_file(tmp_path: Path) -> None:
    progress = StreamProgress("uplink", "l.uplink", 1, 5)
    progress.save(tmp_path / "progress.json")
    assert json.loads((tmp_path / "progress.json").read_text())["rows"] == 5


def test_metrics_of_the_write_path_are_answered_with_those_of_the_stream() -> None:
    progress = StreamProgress("uplink", "l.uplink")
    with serving_metrics(progress, 0) as port:
        progress.count(900, 100, 2.0, 42)
        text = get(port, "/metrics")
    assert 'frazil_pipeline_batches_total{pipeline="uplink"} 1' in text
    assert 'frazil_pipeline_rows_total{pipeline="uplink",outcome="quarantined"} 100' in text
    assert isinstance(metrics.current(), metrics.NoMetrics)
