"""The catalog that users hold: PyIceberg's, with transactions, keys, ETags and commits that end in one of
three ways.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

import requests
from pydantic import Field, ValidationError
from pyiceberg.catalog.rest import (
    PAGE_SIZE,
    SNAPSHOT_LOADING_MODE,
    Capability,
    Endpoint,
    Endpoints,
    HttpMethod,
    ListNamespaceResponse,
    TableResponse,
)
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import IcebergBaseModel, Identifier
from requests import HTTPError, Response, Session

from frazil.client.changes import Change
from frazil.client.grants import GrantRecords
from frazil.client.indexes import IndexRecords
from frazil.client.outcomes import end_commit, lost_its_metadata, what_it_said
from frazil.client.searches import Searches
from frazil.client.sharing import Shared
from frazil.client.transaction import CatalogTransaction
from frazil.client.transport import KEY_LIFETIME, Transport
from frazil.config import Settings, load_settings
from frazil.errors import ReferencesUnknown, TableBroken, Unavailable
from frazil.properties import safe_properties
from frazil.protocol import PROPERTY_REBASE_APPENDS
from frazil.pyiceberg_compat import parse_metadata, raise_for_answer, retried

logger = logging.getLogger("frazil.client")

CACHED_TABLES = 256
DELEGATION = "X-Iceberg-Access-Delegation"
UNKNOWN_ROUTE = (400, 404, 405, 406, 501)  # what servers answer to a path that they do not have
LOADS_AT_A_TIME = 8  # as many as the session keeps connections for, and two to spare
SIGN = Endpoint(http_method=HttpMethod.POST, path="/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign")
COMMIT_TRANSACTION = Endpoint(http_method=HttpMethod.POST, path="/v1/{prefix}/transactions/commit")


class _TransactionRequest(IcebergBaseModel):
    table_changes: list[CommitTableRequest] = Field(alias="table-changes")


def connect(settings: Settings | None = None, **properties: str) -> FrazilCatalog:
    """The catalog of the settings (default: those that hold in this folder); PyIceberg properties given here win."""
    settings = settings or load_settings()
    return FrazilCatalog(settings.catalog.name, **{**catalog_properties(settings), **properties})


def catalog_properties(settings: Settings) -> dict[str, str]:
    """The settings as PyIceberg's properties; what is not set is left to PyIceberg and the AWS variables."""
    catalog, s3 = settings.catalog, settings.s3
    secrets = {
        "token": catalog.token,
        "s3.access-key-id": s3.access_key_id,
        "s3.secret-access-key": s3.secret_access_key,
    }
    values = {"uri": catalog.uri, "warehouse": catalog.warehouse, "s3.endpoint": s3.endpoint}
    if s3.endpoint or settings.source_of("s3.region") != "default":
        values["s3.region"] = s3.region
    if not s3.path_style_access:
        values["s3.force-virtual-addressing"] = "true"
    values |= {key: secret.get_secret_value() for key, secret in secrets.items() if secret is not None}
    return {**{key: value for key, value in values.items() if value is not None}, **catalog.properties}


class FrazilCatalog(IndexRecords, GrantRecords, Searches):
    """A REST catalog as PyIceberg's `load_catalog` gives it; see `frazil.client` for what it adds and promises.

    PyIceberg makes one, too, from `py-catalog-impl: frazil.client.FrazilCatalog` in `.pyiceberg.yaml`.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self._loaded: OrderedDict[str, tuple[str, TableResponse]] = OrderedDict()  # by URL: ETag and what came with it
        self._loaded_lock = Lock()
        self._loading: Shared[TableResponse] = Shared()
        self._ignored: set[tuple[Identifier, tuple[str, ...]]] = set()  # unsafe properties that the log has named
        self._server_answers_keys = False
        self._io_of: Callable[[Table], FileIO] | None = None
        super().__init__(name, **properties)

    @property
    def vends_credentials(self) -> bool:
        """Whether the server hands out credentials for the object store of this warehouse."""
        return self.offers(Capability.V1_LOAD_CREDENTIALS)

    @property
    def signs_requests(self) -> bool:
        """Whether the server signs requests to the object store of this warehouse."""
        return self.offers(SIGN)

    def transaction(self) -> CatalogTransaction:
        """A block whose changes to several tables happen together or not at all."""
        self.require_endpoint(COMMIT_TRANSACTION)
        return CatalogTransaction(self)

    # --- commits -----------------------------------------------------------------------------------------------------

    def commit_changes(self, changes: Sequence[Change]) -> None:
        """All changes have happened, in one commit; else `CommitConflict` (none has) or `CommitUnknown`."""
        if not changes:
            return
        request = _TransactionRequest(**{"table-changes": [change.request for change in changes]})
        self._commit("transactions/commit", request, changes)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """The table after its change has happened; else `CommitConflict` or `CommitUnknown`, neither of which PyIceberg
        retries.
        """
        change = Change(table.name(), requirements, updates)
        path = Endpoints.update_table.format(**self.path_of(change.identifier))
        response = self._commit(path, change.request, [change])
        if response is not None:
            committed = parse_metadata(CommitTableResponse, response.text)
            return committed.model_copy(
                update={"metadata": self._without_unsafe(committed.metadata, change.identifier)}
            )
        fresh = self.load_table(change.identifier)
        return CommitTableResponse.model_validate(
            {"metadata": fresh.metadata, "metadata-location": fresh.metadata_location}
        )

    def _commit(self, path: str, request: IcebergBaseModel, changes: Sequence[Change]) -> Response | None:
        body = request.model_dump_json().encode()
        return end_commit(lambda: self.session.post(self.url(path), data=body), self._look, changes)

    def _look(self, identifier: Identifier) -> TableMetadata | None:
        """The table as it is now, with what the catalog does where a table does not say whether it rebases appends."""
        default = {key: value for key, value in self.properties.items() if key == PROPERTY_REBASE_APPENDS}
        try:
            metadata: TableMetadata = self.load_table(identifier).metadata
            return metadata.model_copy(update={"properties": {**default, **metadata.properties}})
        except NoSuchTableError:
            return None

    # --- references --------------------------------------------------------------------------------------------------

    def find_references(self, files: Sequence[str], *, other_than: Identifier | None = None) -> dict[str, str] | None:
        """Of these files, those that a table or view of any warehouse leads to, with its name; one table may be left
        out.

        None: the server is not Frazil's, and does not know. `ReferencesUnknown`: a table cannot be read, and may lead
        to any of them.
        """
        references: dict[str, str] = {}
        token: list[str] | None = None
        while True:
            body: dict[str, Any] = {"files": list(files), "page-token": token}
            if other_than is not None:
                body["other-than"] = {"namespace": list(other_than[:-1]), "name": other_than[-1]}
            try:
                response = self.session.post(self.url("tables/references"), json=body)
            except (requests.RequestException, Unavailable) as exc:
                raise ReferencesUnknown("the catalog", self.url("tables/references"), str(exc)) from exc
            if response.status_code in UNKNOWN_ROUTE and "References request" not in response.text:
                return None
            if not response.ok:
                raise ReferencesUnknown("the catalog", response.url, what_it_said(response))
            page = response.json()
            if page.get("unknown"):
                raise ReferencesUnknown("a table", "the catalog's answer", page["unknown"])
            references |= {reference["file"]: reference["table"] for reference in page["referenced"]}
            token = page.get("next-page-token")
            if not token:
                return references

    # --- loads -------------------------------------------------------------------------------------------------------

    @retried
    def load_table(self, identifier: str | Identifier) -> Table:
        """The table as it is now; one that has not changed since the last load is neither sent nor parsed again.

        Threads that load one table at the same time share a request. `NoSuchTableError`: there is none of this name.
        `TableBroken`: there is, and the catalog cannot read its metadata.
        """
        self.require_endpoint(Capability.V1_LOAD_TABLE)
        url = self.url(Endpoints.load_table, **self.path_of(identifier))
        name = self.identifier_to_tuple(identifier)
        table = self.to_table(name, self._loading.ask(url, lambda: self._fetch_table(url, name)))
        if self._io_of is not None:
            table.io = self._io_of(table)
        return table

    def limit_files(self, io_of: Callable[[Table], FileIO]) -> None:
        """Tables that are loaded from now on reach their files by what this gives for each."""
        self._io_of = io_of

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        """A table of this name, with metadata that another catalog or an earlier one has written."""
        try:
            table: Table = super().register_table(identifier, metadata_location, overwrite)
        except ValidationError:  # it is registered: PyIceberg does not know a part of its metadata
            table = self.load_table(identifier)
        return table

    def load_tables(self, identifiers: Iterable[str | Identifier]) -> list[Table]:
        """The tables as they are now, in the order of their names; several are loaded at a time, and each once however
        often it is named.

        One that is not there is PyIceberg's `NoSuchTableError`, which names it.
        """
        loaded = self.load_each(identifiers)
        if errors := [table for table in loaded if isinstance(table, Exception)]:
            raise errors[0]
        return [table for table in loaded if isinstance(table, Table)]

    def load_each(self, identifiers: Iterable[str | Identifier]) -> list[Table | Exception]:
        """As `load_tables`, with the error in the place of a table that could not be loaded: it does not hide the
        others.
        """
        names = [self.identifier_to_tuple(identifier) for identifier in identifiers]
        wanted = list(dict.fromkeys(names))
        if len(wanted) < 2:
            loaded = {name: self._load_or_error(name) for name in wanted}
        else:
            with ThreadPoolExecutor(min(LOADS_AT_A_TIME, len(wanted)), thread_name_prefix="load-tables") as threads:
                loaded = dict(zip(wanted, threads.map(self._load_or_error, wanted), strict=True))
        return [loaded[name] for name in names]

    def _load_or_error(self, identifier: Identifier) -> Table | Exception:
        try:
            table: Table = self.load_table(identifier)
            return table
        except Exception as exc:  # it is the caller's, in its place
            return exc

    def _fetch_table(self, url: str, name: Identifier) -> TableResponse:
        mode, known = self.properties.get(SNAPSHOT_LOADING_MODE), self._loaded.get(url)
        response = self.session.get(
            url, params={"snapshots": mode} if mode else {}, headers={"If-None-Match": known[0]} if known else {}
        )
        if response.status_code == requests.codes.not_modified and known:
            return known[1]
        try:
            response.raise_for_status()
        except HTTPError as exc:
            if self._is_broken(response, url):
                raise TableBroken(".".join(name), what_it_said(response)) from exc
            raise_for_answer(exc, {404: NoSuchTableError})
        loaded = self.check_response(parse_metadata(TableResponse, response.text), name)
        self._remember(url, response.headers.get("ETag"), loaded)
        return loaded

    def _is_broken(self, response: Response, url: str) -> bool:
        """Whether the table is there, and its metadata is not. A catalog may use one type of 404 for both, so it is
        asked once more.
        """
        return response.status_code == 422 or (lost_its_metadata(response) and self.session.head(url).ok)

    def _remember(self, url: str, tag: str | None, loaded: TableResponse) -> None:
        with self._loaded_lock:
            self._loaded.pop(url, None)
            # Credentials run out while the table stays the same: such a table is loaded again each time.
            if tag and not loaded.storage_credentials:
                self._loaded[url] = (tag, loaded)
            while len(self._loaded) > CACHED_TABLES:
                self._loaded.popitem(last=False)

    def check_response(self, response: TableResponse, identifier: Identifier) -> TableResponse:
        metadata = self._without_unsafe(response.metadata, identifier)
        return response if metadata is response.metadata else response.model_copy(update={"metadata": metadata})

    def _without_unsafe(self, metadata: TableMetadata, identifier: Identifier) -> TableMetadata:
        """The metadata without properties that PyIceberg would take for its own configuration; `frazil.properties` says
        which.
        """
        safe = safe_properties(metadata.properties)
        if safe is metadata.properties:
            return metadata
        dropped = tuple(sorted(metadata.properties.keys() - safe.keys()))
        if (identifier, dropped) not in self._ignored:
            self._ignored.add((identifier, dropped))
            logger.warning("ignoring unsafe properties of table %s: %s", ".".join(identifier), ", ".join(dropped))
        return metadata.model_copy(update={"properties": safe})

    # --- namespaces --------------------------------------------------------------------------------------------------

    @retried
    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        """The namespaces right below one, or at the top. PyIceberg encodes the parent's name twice, so that `my space`
        is not found.
        """
        self.require_endpoint(Capability.V1_LIST_NAMESPACES)
        parent = self.namespace_separator.join(self.identifier_to_tuple(namespace))
        params = {
            key: value for key, value in (("parent", parent), ("pageSize", self.properties.get(PAGE_SIZE))) if value
        }
        namespaces: list[Identifier] = []
        while True:
            response = self.session.get(self.url(Endpoints.list_namespaces), params=params)
            try:
                response.raise_for_status()
            except HTTPError as exc:
                raise_for_answer(exc, {404: NoSuchNamespaceError})
            page = ListNamespaceResponse.model_validate_json(response.text)
            namespaces += page.namespaces
            if not page.next_page_token:
                return namespaces
            params["pageToken"] = page.next_page_token

    # --- the session -------------------------------------------------------------------------------------------------

    def prepare_session(self, session: Session) -> None:
        if "s3.access-key-id" in self.properties and f"header.{DELEGATION}" not in self.properties:
            # PyIceberg asks for credentials by default, and they would replace the keys of this client: a sink or a
            # rewrite may run for longer than they last.
            session.headers.pop(DELEGATION, None)
        session.hooks["response"].append(self._note_promise)
        transport = Transport(keys=self._server_answers_keys)
        # a signing adapter that PyIceberg mounted on the catalog's own URL stays in front
        for scheme in ("http://", "https://"):
            session.mount(scheme, transport)

    def _note_promise(self, response: Response, **_: object) -> None:
        """The configuration says whether the server answers a repeated key once; PyIceberg drops that field."""
        if response.ok and response.url.partition("?")[0] == self.url(Endpoints.get_config, prefixed=False):
            self._server_answers_keys = bool(response.json().get(KEY_LIFETIME))
