"""Texts that are searched for: an embedder makes vectors of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from frazil.errors import VectorError
from frazil.vector.metric import Matrix


def texts_of(queries: object) -> list[str] | None:
    """The texts that are searched for, one or several; None if it is something else."""
    if isinstance(queries, str):
        return [queries]
    if isinstance(queries, (list, tuple)) and queries and all(isinstance(query, str) for query in queries):
        return list(queries)
    return None


def embed_texts(texts: list[str], embed: Callable[[list[str]], Any], *, table: str, column: str) -> Matrix:
    """A vector for each text; a search checks the numbers as it checks any vector."""
    try:
        vectors = np.asarray(embed(texts), np.float32)
    except (TypeError, ValueError) as exc:
        raise _wrong(table, column, f"gave what are no vectors: {exc}") from exc
    if vectors.ndim != 2 or len(vectors) != len(texts):
        shape = " x ".join(map(str, vectors.shape))
        raise _wrong(table, column, f"gave {shape or 'one'} numbers for {len(texts)} texts")
    return vectors


def no_embedder(table: str, column: str) -> VectorError:
    """A text is searched for, and nothing says how to make a vector of it."""
    return VectorError(
        f"{table}: column '{column}' is searched by vectors, and the project declares no embedder for text",
        hint=f'declare indexes=[vector_index("{column}", embed=model)] in lakehouse.py, or pass embed=model to nearest',
        table=table,
        column=column,
        problem="no-embedder",
    )


def _wrong(table: str, column: str, problem: str) -> VectorError:
    return VectorError(
        f"{table}: the embedder of column '{column}' {problem}",
        hint="expected a function that gives a vector for each text of a list",
        table=table,
        column=column,
        problem="embedder",
    )
