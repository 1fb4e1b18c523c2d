"""PyIceberg's REST catalog, with public names for the parts that `frazil.client` builds on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, get_args

from pydantic import ValidationError
from pyiceberg.catalog.rest import _RETRY_ARGS, Endpoint, RestCatalog, TableResponse
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.io import FileIO
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.statistics import BlobMetadata
from pyiceberg.typedef import IcebergBaseModel, Identifier
from requests import HTTPError, Session
from tenacity import retry

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=IcebergBaseModel)
BLOB_TYPES = get_args(BlobMetadata.model_fields["type"].annotation)  # that PyIceberg knows


def retried(method: F) -> F:
    """A method of a catalog that runs again with a fresh token after an answer of 401. `_RETRY_ARGS`: PyIceberg's own
    methods are retried by them.
    """
    return retry(**_RETRY_ARGS)(method)  # type: ignore[call-overload, no-any-return]  # a dict of arguments


def raise_for_answer(error: HTTPError, errors: dict[int, type[Exception]]) -> None:
    """Raises PyIceberg's error for an answer. `_handle_non_200_response`: the mapping has no public name."""
    _handle_non_200_response(error, errors)


def parse_metadata(model: type[M], text: str) -> M:
    """An answer that holds the metadata of a table. PyIceberg refuses metadata that names a blob of a type that it does
    not know; such blobs are left out.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as exc:
        if not any(error["loc"][-3:][::2] == ("blob-metadata", "type") for error in exc.errors(include_input=False)):
            raise
    answer = json.loads(text)
    for file in answer["metadata"]["statistics"]:
        file["blob-metadata"] = [blob for blob in file["blob-metadata"] if blob.get("type") in BLOB_TYPES]
    return model.model_validate_json(json.dumps(answer))


class OpenRestCatalog(RestCatalog):
    """A REST catalog whose subclasses need no private name of PyIceberg."""

    @property
    def session(self) -> Session:
        """`_session`: the HTTP session with the catalog's credentials, for routes that PyIceberg does not know."""
        return self._session

    @property
    def namespace_separator(self) -> str:
        """`_namespace_separator`: what the server wants between the levels of a namespace."""
        return self._namespace_separator

    def require_endpoint(self, endpoint: Endpoint) -> None:
        """`_check_endpoint`: raises when the server does not offer an endpoint."""
        self._check_endpoint(endpoint)

    def offers(self, endpoint: Endpoint) -> bool:
        """`_supported_endpoints`: whether the server offers an endpoint."""
        return endpoint in self._supported_endpoints

    def path_of(self, identifier: str | Identifier) -> dict[str, Any]:
        """`_split_identifier_for_path`: a table's name as the parts of a URL."""
        return self._split_identifier_for_path(identifier)

    def to_table(self, identifier: Identifier, response: TableResponse) -> Table:
        """`_response_to_table`: the table of a parsed answer, which may come from the cache."""
        return self._response_to_table(identifier, response)

    # --- what subclasses override ------------------------------------------------------------------------------------

    def prepare_session(self, session: Session) -> None:
        """Called with each new session."""

    def check_response(self, response: TableResponse, identifier: Identifier) -> TableResponse:
        """Called with the metadata of each table before PyIceberg uses it."""
        return response

    def _create_session(self) -> Session:
        """`_create_session`: there is no other place to mount an HTTP adapter."""
        session = super()._create_session()
        self.prepare_session(session)
        return session

    def _response_to_table(self, identifier_tuple: tuple[str, ...], table_response: TableResponse) -> Table:
        """`_response_to_table`: PyIceberg makes the FileIO here, from properties that must be checked before."""
        return super()._response_to_table(identifier_tuple, self.check_response(table_response, identifier_tuple))

    def _response_to_staged_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> StagedTable:
        """`_response_to_staged_table`: as `_response_to_table`, for a table that is to be created."""
        checked = self.check_response(table_response, identifier_tuple)
        return super()._response_to_staged_table(identifier_tuple, checked)

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """`_delete_old_metadata`: deletes nothing. The server deletes old metadata files, and knows which of them
        another table needs.
        """
