"""Grants in Frazil's catalog: what its client adds to PyIceberg's for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyiceberg.typedef import Identifier
from requests import Response

from frazil.client.outcomes import what_it_said
from frazil.errors import AccessError
from frazil.pyiceberg_compat import OpenRestCatalog

GRANTS = "namespaces/{namespace}/%ss/{table}/grants"  # of tables or views
INDEX_GRANTS = "namespaces/{namespace}/tables/{table}/indexes/{index}/grants"
Kind = Literal["table", "view"]
UNKNOWN_ROUTES = (400, 404, 405, 406, 501)  # what servers answer to a path that they do not have


@dataclass(frozen=True)
class Grant:
    """A privilege of a role, or of a user as `user:NAME`, on a table, view or index."""

    grantee: str
    privilege: str
    creator: bool = False  # the grantee has it because it created the table or view


@dataclass(frozen=True)
class RoleCheck:
    """Whether the catalog enforces grants, and which of the roles that were asked for do not exist."""

    enforced: bool
    unknown: tuple[str, ...] = ()


class GrantRecords(OpenRestCatalog):
    """Lists and changes the grants on a table, view or index; needs the privilege `manage` on it."""

    def list_grants(
        self, identifier: str | Identifier, *, kind: Kind = "table", index: str | None = None
    ) -> list[Grant]:
        """The grants on the table, the view, or the index of this name itself; not those that it inherits."""
        return _grants(_answer(self.session.get(self._grants_url(identifier, kind, index)), identifier))

    def change_grants(
        self,
        identifier: str | Identifier,
        *,
        grant: Sequence[tuple[str, str]] = (),
        revoke: Sequence[tuple[str, str]] = (),
        kind: Kind = "table",
        index: str | None = None,
    ) -> list[Grant]:
        """Grants and revokes pairs of grantee and privilege, all or nothing; the grants that there are then."""
        body = {"grant": _pairs(grant), "revoke": _pairs(revoke)}
        return _grants(_answer(self.session.post(self._grants_url(identifier, kind, index), json=body), identifier))

    def check_roles(self, roles: Sequence[str]) -> RoleCheck | None:
        """Whether grants to these roles are possible and enforced; None if the catalog keeps no grants."""
        url = f"{self.uri.rstrip('/')}/access/roles"
        response = self.session.get(url, params={"names": ",".join(roles)})
        if response.status_code in UNKNOWN_ROUTES:
            return None
        answer = _answer(response, "")
        return RoleCheck(bool(answer["authentication"]), tuple(answer["unknown"]))

    def _grants_url(self, identifier: str | Identifier, kind: Kind, index: str | None) -> str:
        if index is not None:
            return self.url(INDEX_GRANTS, **self.path_of(identifier), index=index)
        return self.url(GRANTS % kind, **self.path_of(identifier))


def _pairs(pairs: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"grantee": grantee, "privilege": privilege} for grantee, privilege in pairs]


def _grants(answer: dict[str, Any]) -> list[Grant]:
    return [Grant(grant["grantee"], grant["privilege"], bool(grant.get("creator"))) for grant in answer["grants"]]


def _answer(response: Response, identifier: str | Identifier) -> dict[str, Any]:
    if response.ok:
        answer: dict[str, Any] = response.json()
        return answer
    table = identifier if isinstance(identifier, str) else ".".join(identifier)
    raise AccessError(
        f"grants{' of ' + table if table else ''}: {what_it_said(response)}",
        table=table,
        problem=str(response.status_code),
    )
