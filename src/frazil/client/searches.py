"""Vector searches that Frazil's catalog runs: what its client adds to PyIceberg's for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import Endpoint, HttpMethod
from pyiceberg.typedef import Identifier
from requests import Response

from frazil.client.outcomes import what_it_said
from frazil.errors import NoSuchTable, TooBusy, Unavailable, VectorError
from frazil.pyiceberg_compat import OpenRestCatalog

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression

SEARCH = "namespaces/{namespace}/tables/{table}/search"
SEARCH_ENDPOINT = Endpoint(http_method=HttpMethod.POST, path=f"/v1/{{prefix}}/{SEARCH}")
ARROW = "application/vnd.apache.arrow.stream"
LASTING = 500  # statuses below say that the request is wrong


class Searches(OpenRestCatalog):
    """Searches tables in the server, for clients that cannot read the files, or not fast enough."""

    def search_table(
        self,
        identifier: str | Identifier,
        column: str,
        vectors: Any,
        *,
        k: int = 10,
        metric: str | None = None,
        filter: BooleanExpression | None = None,
        select: Sequence[str] | None = None,
        snapshot_id: int | None = None,
        exact: bool = False,
    ) -> pa.Table:
        """The k rows whose vectors are nearest, as `scan.nearest(...)` gives them, found by the server.

        `VectorError`: the server refuses the search. `TooBusy`: it runs too many; try again. `NotImplementedError`:
        it runs none.
        """
        self.require_endpoint(SEARCH_ENDPOINT)
        body: dict[str, Any] = {"column": column, "k": k, "exact": exact, **_as_json(vectors)}
        body |= {name: value for name, value in (("metric", metric), ("snapshot-id", snapshot_id)) if value is not None}
        if select is not None:
            body["select"] = list(select)
        if filter is not None:
            body["filter"] = json.loads(filter.model_dump_json())
        url = self.url(SEARCH, **self.path_of(identifier))
        response = self.session.post(url, json=body, headers={"Accept": ARROW})
        return _answer(response, identifier if isinstance(identifier, str) else ".".join(identifier))


def _as_json(vectors: Any) -> dict[str, Any]:
    """One vector or several, as lists."""
    plain = vectors.tolist() if hasattr(vectors, "tolist") else [_plain(item) for item in vectors]
    several = bool(plain) and isinstance(plain[0], list)
    return {"vectors" if several else "vector": plain}


def _plain(item: Any) -> Any:
    if hasattr(item, "tolist"):
        return item.tolist()
    return list(item) if isinstance(item, list | tuple) else item


def _answer(response: Response, table: str) -> pa.Table:
    import pyarrow as pa

    if response.ok:
        return pa.ipc.open_stream(response.content).read_all()
    said = what_it_said(response)
    if response.status_code == 404 and "NoSuchTable" in response.text:
        raise NoSuchTable(table)
    if response.status_code == 429:
        raise TooBusy(said)
    if response.status_code < LASTING:
        raise VectorError(f"{table}: the catalog refused the search: {said}", table=table, reason=said)
    raise Unavailable(f"the catalog did not answer for a search of {table}: {said}")
