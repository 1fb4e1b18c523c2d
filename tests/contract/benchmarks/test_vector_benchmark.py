"""The case of the vector benchmark builds an index, searches it, and measures what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.vector.case import recall
from benchmarks.vector.data import QUERIES, K, write
from frazil.catalog.embedded import running_catalog
from frazil.client import connect


def test_the_right_answers_are_those_of_every_share_and_of_the_changed_table(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((QUERIES + 3000, 16)).astype(np.float32)
    data = write(tmp_path / "data", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    rows = len(data.vectors)
    assert (rows, len(data.added)) == (2850, 150)
    everything = np.concatenate([data.vectors, data.added])
    later = np.setdiff1d(np.arange(3000), data.deleted)
    for name, chosen in {"all": np.arange(rows), "1": np.arange(0, rows, 100), "later": later}.items():
        right = chosen[np.argsort(-(data.queries @ everything[chosen].T), axis=1, kind="stable")[:, :K]]
        assert recall(data.truth(name), right) == 1
    assert recall(np.full((QUERIES, K), -1), data.truth("all")) == 0


def test_a_case_says_what_our_search_costs_and_how_good_it_is(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).standard_normal((QUERIES + 3000, 16)).astype(np.float32)
    data = write(tmp_path / "data", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    with running_catalog(tmp_path / "catalog") as server:
        connect(uri=server.uri).create_namespace("bench")
        command = [sys.executable, "-m", "benchmarks.vector.case", "ours", str(data.folder), str(tmp_path), server.uri]
        done = subprocess.run([*command, "0.2"], capture_output=True, text=True, check=True)
    costs = json.loads(done.stdout.splitlines()[-1])
    assert min(costs["recall"], costs["recall_1"], costs["recall_10"], costs["recall_later"]) >= 0.9
    assert min(costs["single"], costs["batch"], costs["bytes"], costs["index_mb"], costs["build_mb"]) > 0
    assert costs["deleted_found"] == 0
