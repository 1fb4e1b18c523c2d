"""Records of indexes in Frazil's catalog: what its client adds to PyIceberg's for them."""

from __future__ import annotations

from typing import Any

from pyiceberg.typedef import Identifier
from requests import Response

from frazil.client.outcomes import what_it_said
from frazil.errors import AlreadyExists, CommitConflict, NoSuchIndex, Unavailable, VectorError
from frazil.pyiceberg_compat import OpenRestCatalog

INDEXES = "namespaces/{namespace}/tables/{table}/indexes"
UNKNOWN_ROUTES = (400, 405, 406, 501)  # what servers answer to a path that they do not have, next to 404
REFUSALS = (400, 401, 403)  # the record is wrong, or the caller may not


class IndexRecords(OpenRestCatalog):
    """Lists, creates, replaces and drops the records of a table's indexes."""

    def list_indexes(self, identifier: str | Identifier) -> list[dict[str, Any]] | None:
        """The records of a table's indexes; None if the server keeps none."""
        response = self.session.get(self._indexes_url(identifier))
        if response.status_code in UNKNOWN_ROUTES or _is_unknown_route(response):
            return None
        indexes: list[dict[str, Any]] = self._answer(response, identifier, "")["indexes"]
        return indexes

    def create_index(self, identifier: str | Identifier, name: str, record: dict[str, Any]) -> dict[str, Any]:
        """A new index; `AlreadyExists` if the table has one of that name."""
        response = self.session.post(self._indexes_url(identifier), json={"name": name, "record": record})
        return self._answer(response, identifier, name)

    def replace_index(
        self, identifier: str | Identifier, name: str, record: dict[str, Any], *, version: int
    ) -> dict[str, Any]:
        """The index with a new record; `CommitConflict` if it has another version by now."""
        response = self.session.post(
            f"{self._indexes_url(identifier)}/{name}", json={"version": version, "record": record}
        )
        return self._answer(response, identifier, name)

    def drop_index(self, identifier: str | Identifier, name: str) -> None:
        """The index is no longer recorded; its files stay."""
        self._answer(self.session.delete(f"{self._indexes_url(identifier)}/{name}"), identifier, name)

    def _indexes_url(self, identifier: str | Identifier) -> str:
        return self.url(INDEXES, **self.path_of(identifier))

    def _answer(self, response: Response, identifier: str | Identifier, name: str) -> dict[str, Any]:
        if response.ok:
            answer: dict[str, Any] = response.json() if response.content else {}
            return answer
        said = what_it_said(response)
        table = identifier if isinstance(identifier, str) else ".".join(identifier)
        if response.status_code == 409:
            raise (AlreadyExists if "already exists" in said else CommitConflict)(said)
        if response.status_code == 404 and name:
            raise NoSuchIndex(f"{table}.{name}")
        if response.status_code in REFUSALS:
            raise VectorError(
                f"{table}: the catalog refused{' index ' + name if name else ''}: {said}",
                table=table,
                name=name,
                problem="refused",
            )
        raise Unavailable(f"the catalog did not answer for the indexes of {table}: {said}")


def _is_unknown_route(response: Response) -> bool:
    return response.status_code == 404 and "NoSuchTable" not in response.text
