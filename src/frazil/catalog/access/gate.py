"""The gate: who sends a request, and whether the request may be carried out.

Every request passes it, also those that are answered in the event loop: authenticate, authorise, then the rest. A
change is checked once more inside its own transaction if keys, roles or grants have changed meanwhile.

An object that a caller may not see does not exist for the caller: the answer is that of a missing one, decided before
anything is looked up. What is remembered of keys and grants holds for one version of the database's access state, and
only what was allowed is remembered.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from frazil.catalog.access import keys
from frazil.catalog.access.needs import Needs
from frazil.catalog.access.privileges import ADMIN, Caller, Need, Privilege, Target, grantee_of, included
from frazil.catalog.access.recorder import Recorder
from frazil.catalog.http import Request
from frazil.catalog.names import SEPARATOR, Name, show
from frazil.catalog.store import access as store
from frazil.catalog.store import audit, relations
from frazil.catalog.store.access import StoredKey
from frazil.catalog.store.database import Database, Fence, Sql, Statement
from frazil.catalog.warehouse import Warehouses, WouldBlock
from frazil.errors import (
    BadRequest,
    CatalogError,
    Forbidden,
    ForeignFile,
    LocationOccupied,
    LocationRefused,
    NoSuchIndex,
    NoSuchNamespace,
    NoSuchTable,
    NoSuchView,
    NoSuchWarehouse,
    NotAuthenticated,
    PropertyRefused,
)

if TYPE_CHECKING:
    from frazil.catalog.access.claims import Identity
    from frazil.catalog.access.tokens import Tokens

USED_MS = 600_000  # a later use of a key is noted
KEY_SECONDS = 60.0  # that a verified key is remembered at most
MOST_KEYS, MOST_DECISIONS = 10_000, 100_000
_ALL = frozenset(Privilege)
INTERNAL_PREFIX = "frazil:"  # no principal of a key or an issuer has such a name
# refused by operations: what a caller may not name, whatever it was granted
REFUSALS = (ForeignFile, LocationOccupied, LocationRefused, PropertyRefused)
_NO_DIGEST = "0" * 64  # compared where there is no key, so that it takes as long


class AccessChanged(Exception):
    """Keys, roles or grants have changed since what was assumed: authenticate and authorise, then run again."""


class _Remembered(NamedTuple):
    caller: Caller
    version: int
    until: float  # monotonic
    expires_ms: int | None


class Gate:
    """The gate of one server process. Without a pepper authentication is off, and everything passes."""

    def __init__(
        self,
        database: Database,
        warehouses: Warehouses,
        *,
        pepper: bytes | None,
        clock: Callable[[], int],
        tokens: Tokens | None = None,
    ) -> None:
        self._database, self._warehouses, self._clock = database, warehouses, clock
        self._tokens = tokens  # None: API keys only
        self._pepper = pepper or b""
        self.on = pepper is not None
        self._internal: tuple[bytes, Caller] | None = None
        self._recorder = Recorder(database) if self.on else None
        self._keys: dict[bytes, _Remembered] = {}  # by a hash of the key
        self._newest = 0  # the newest version that was read
        # (version, what was needed) by key and request
        self._assumed: dict[tuple[bytes | str, ...], tuple[int, Sequence[Need]]] = {}
        # (version, what a principal may do with an object)
        self._decisions: tuple[int, dict[tuple[tuple[str, ...], Target], frozenset[Privilege]]] = (0, {})
        # (version, of which warehouses and namespaces a principal may know everything)
        self._seen_whole: tuple[int, set[tuple[tuple[str, ...], Target]]] = (0, set())

    # --- who ---------------------------------------------------------------------------------------------------------

    def admit_internal(self, name: str, privileges: Sequence[str]) -> str:
        """A new token of a part of this very process: the principal `frazil:NAME`, on everything, with these privileges
        and what they include. It is in no database, and ends with the process.
        """
        token = secrets.token_urlsafe(32)
        principal = f"{INTERNAL_PREFIX}{name}"
        caller = Caller(principal, "", (grantee_of(principal), ADMIN), included(privileges))
        self._internal = (hashlib.sha256(token.encode()).digest(), caller)
        return token

    def authenticate(self, request: Request) -> None:
        """Notes in the request who sends it; raises NotAuthenticated."""
        sql = self._database.read()
        request.assumed = request.authorised = request.decided = False
        request.authenticated_at = time.monotonic()
        request.access_version = self._newest = store.version(sql)
        try:
            request.caller = self._caller(sql, _bearer(request.headers), request)
        except NotAuthenticated:
            request.refused = True
            raise

    def _caller(self, sql: Sql, token: bytes, request: Request) -> Caller:
        version, fingerprint = request.access_version, hashlib.sha256(token).digest()
        known = self._keys.get(fingerprint)
        if known is not None and known.version == version and time.monotonic() < known.until:
            request.expires_ms = known.expires_ms
            self.check_expiry(request)
            return known.caller
        caller, request.expires_ms = self._verify(sql, token, inline=request.inline)
        if len(self._keys) >= MOST_KEYS:
            self._keys = {}
        self._keys[fingerprint] = _Remembered(caller, version, time.monotonic() + KEY_SECONDS, request.expires_ms)
        return caller

    def check_expiry(self, request: Request) -> None:
        """Passes when the caller's token is valid now: it may have ended since the caller was looked up, while the
        client kept its body back or the request waited for its turn.
        """
        if request.expires_ms is not None and self._clock() >= request.expires_ms:
            request.refused = True
            raise _unknown()

    def _verify(self, sql: Sql, token: bytes, *, inline: bool = False) -> tuple[Caller, int | None]:
        """Who sends a token, and when the token ends."""
        if self._internal is not None:
            digest, caller = self._internal
            if hmac.compare_digest(hashlib.sha256(token).digest(), digest):
                return caller, None
        if b"." in token:
            return self._verify_jwt(sql, token, inline=inline)
        key = self.verify_key(sql, token)
        return self._caller_of_key(sql, key), key.expires_ms

    def _verify_jwt(self, sql: Sql, token: bytes, *, inline: bool) -> tuple[Caller, int | None]:
        if self._tokens is None:
            raise _unknown()
        identity = self._tokens.identify(token, inline=inline)
        if identity is None:
            raise _unknown()
        if identity.key_id is None:
            grantees = (grantee_of(identity.principal), *identity.roles, *store.roles_of(sql, identity.principal))
            return Caller(identity.principal, "", tuple(dict.fromkeys(grantees)), identity.ceiling), identity.expires_ms
        key = self.key_behind(sql, identity)
        caller = self._caller_of_key(sql, key)
        ends = identity.expires_ms if key.expires_ms is None else min(identity.expires_ms, key.expires_ms)
        return caller._replace(ceiling=caller.ceiling & identity.ceiling), ends

    def verify_key(self, sql: Sql, token: bytes) -> StoredKey:
        """The API key that a token is; raises NotAuthenticated."""
        key_id = keys.key_id_of(token)
        key = store.find_key(sql, key_id) if key_id is not None else None
        same = hmac.compare_digest(keys.digest_of(self._pepper, token), key.digest if key is not None else _NO_DIGEST)
        if key is None or not same or not self._is_valid(key):
            raise _unknown()
        self._note_use(key)
        return key

    def key_behind(self, sql: Sql, identity: Identity) -> StoredKey:
        """The API key that one of the server's own tokens was issued for; raises NotAuthenticated."""
        key = store.find_key(sql, identity.key_id or "")
        if key is None or key.principal != identity.principal or not self._is_valid(key):
            raise _unknown()
        self._note_use(key)
        return key

    def _note_use(self, key: StoredKey) -> None:
        now_ms = self._clock()
        if self._recorder is not None and (key.used_ms is None or now_ms - key.used_ms >= USED_MS):
            self._recorder.note_use(key.id, now_ms=now_ms)

    def require_pepper(self) -> bytes:
        """The pepper that keys are made with; raises if authentication is off."""
        if not self.on:
            raise BadRequest("Authentication is off", hint="frazil token create NAME --role admin makes the first key")
        return self._pepper

    def _is_valid(self, key: StoredKey) -> bool:
        return key.revoked_ms is None and (key.expires_ms is None or self._clock() < key.expires_ms)

    @staticmethod
    def _caller_of_key(sql: Sql, key: StoredKey) -> Caller:
        grantees = (grantee_of(key.principal), *store.roles_of(sql, key.principal))
        ceiling = included(key.scopes.split(",")) if key.scopes else _ALL
        return Caller(key.principal, key.id, grantees, ceiling)

    # --- what --------------------------------------------------------------------------------------------------------

    def authorise(self, needs: Needs, request: Request) -> None:
        """Passes when the caller has what the request needs."""
        if not self.on or request.caller is None or request.authorised:
            return
        try:
            request.needs = needs.find(request, self._warehouses)
        except NoSuchWarehouse as exc:
            request.refused = True
            raise NoSuchWarehouse(exc.message) from None  # its hint lists the others
        sql = self._database.read()
        for need in request.needs:
            if not self._has(sql, request.caller, need, request.access_version):
                raise self._refusal(sql, request, need)
        request.authorised = True

    # --- what is assumed, and confirmed by the operation -------------------------------------------------------------

    def recognise(self, request: Request) -> bool:
        """Whether the caller is remembered. Then the operation compares the version of what is remembered (`confirm`)
        with the one that it reads together with its object: a query less for each request.
        """
        authorization = request.headers.get(b"authorization")
        if authorization is None or authorization[:7] != b"Bearer ":
            return False
        fingerprint = hashlib.sha256(authorization[7:]).digest()
        known, now = self._keys.get(fingerprint), time.monotonic()
        if known is None or known.version < self._newest or now >= known.until:
            return False
        if known.expires_ms is not None and self._clock() >= known.expires_ms:
            return False
        request.caller, request.access_version, request.fingerprint_of_key = known.caller, known.version, fingerprint
        request.assumed, request.expires_ms, request.authenticated_at = True, known.expires_ms, now
        return True

    def remembers(self, needs: Needs, request: Request) -> bool:
        """Whether a recognised caller is allowed to do this, by what is remembered alone."""
        caller, version = request.caller, request.access_version
        assert caller is not None
        if request.method == "POST":  # what it needs is in its body
            wanted = self._remembered(needs, request, caller)
            if wanted is None:
                return False
            request.needs, request.authorised = wanted, True
            return True
        try:
            warehouse = self._warehouses.of_request(request).name  # also where the path names none
        except CatalogError:
            return False
        asked: tuple[bytes | str, ...] = (
            *(request.fingerprint_of_key, request.operation),
            *(warehouse, *request.variables.values()),
        )
        known = self._assumed.get(asked)
        if known is None or known[0] != version:
            wanted = self._remembered(needs, request, caller)
            if wanted is None:
                return False
            if len(self._assumed) >= MOST_DECISIONS:
                self._assumed = {}
            known = self._assumed[asked] = (version, wanted)
        request.needs, request.authorised = known[1], True
        return True

    def _remembered(self, needs: Needs, request: Request, caller: Caller) -> Sequence[Need] | None:
        """What a request needs, if all of it is known to be allowed."""
        try:
            wanted = needs.find(request, self._warehouses)
        except CatalogError:
            return None
        version = request.access_version
        allowed = all(
            need.privilege in caller.ceiling and need.privilege in self._recall(version, caller, need.target)
            for need in wanted
        )
        return wanted if allowed else None

    def _recall(self, version: int, caller: Caller, target: Target) -> frozenset[Privilege]:
        """What is known that the caller's grants give on an object, at this version."""
        held_version, decisions = self._decisions
        if held_version != version:
            return frozenset()
        known = decisions.get((caller.grantees, target), frozenset())
        if target.name:
            # A namespace is also seen for what is in it; everything else is inherited.
            above = Target("namespace", target.warehouse, target.namespace)
            known |= decisions.get((caller.grantees, above), frozenset()) - {Privilege.DISCOVER}
        return known

    @staticmethod
    def confirm(request: Request, version: int | None) -> None:
        """Passes when nothing was assumed, or this is the version that was."""
        if not request.assumed:
            return
        request.assumed = False
        if version != request.access_version:
            request.authorised = False
            raise AccessChanged

    def settle(self, request: Request) -> None:
        """Confirms a request whose operation has ended without: no answer leaves on an assumption."""
        if request.assumed:
            self.confirm(request, store.version(self._database.read()))

    # --- in the transaction of a change ------------------------------------------------------------------------------

    def fence(self, request: Request, status: int, new: Sequence[Target]) -> Fence | None:
        """What a change carries in its own statements instead of `recheck`, `own` and `record`, so that they take no
        round trips; None if it cannot, or needs nothing. `new` are the objects that it creates.
        """
        caller = request.caller
        if caller is None:
            return None
        self.check_expiry(request)
        request.mention(*(f"new {target}" for target in new))
        objects = audit.join_objects(_objects(request))
        if len(objects) > 1 or _ends_names(request):
            return None
        record = audit.insert_statement(self._record(request, objects[0], "allowed", f"status {status}"))
        managed = [target for target in new if Privilege.MANAGE in self._recall(request.access_version, caller, target)]
        grants = [self._ownership(caller, target) for target in new if target not in managed]
        return Fence(request.access_version, record, grants)

    def recheck(self, sql: Sql, request: Request) -> None:
        """The same inside the transaction of a change: passes at once if nothing has changed since."""
        if request.caller is None:
            return
        version = store.version(sql)
        request.assumed, request.decided = False, True  # by what follows
        if version != request.access_version:
            try:
                # inline: a transaction does not wait for the keys of an issuer
                request.caller, request.expires_ms = self._verify(sql, _bearer(request.headers), inline=True)
            except (NotAuthenticated, WouldBlock):
                request.refused = True
                raise _unknown() from None
            self._check(sql, request)
        self.check_expiry(request)
        if _ends_names(request):
            # The name may belong to another table next: what is remembered about it ends.
            store.raise_version(sql)

    def _check(self, sql: Sql, request: Request) -> None:
        """Passes when the caller has what it needs; remembers nothing, for the transaction may be undone."""
        caller = request.caller
        assert caller is not None
        for need in request.needs:
            if need.privilege not in caller.ceiling & self._privileges(sql, caller, need.target):
                raise self._refusal(sql, request, need)

    def _has(self, sql: Sql, caller: Caller, need: Need, version: int) -> bool:
        if need.privilege not in caller.ceiling:
            return False
        if self._decisions[0] != version or len(self._decisions[1]) > MOST_DECISIONS:
            self._decisions = (version, {})
        held_version, decisions = self._decisions
        key = (caller.grantees, need.target)  # an issuer may give a principal other roles in the next token
        if need.privilege in decisions.get(key, ()) and held_version == version:
            return True
        privileges = self._privileges(sql, caller, need.target)
        if need.privilege not in privileges:
            return False
        if held_version == version:
            decisions[key] = privileges
        return True

    @staticmethod
    def _privileges(sql: Sql, caller: Caller, target: Target) -> frozenset[Privilege]:
        """What the caller's grants give on an object. What holds something that can be seen can be seen itself."""
        privileges = included(store.granted(sql, caller.grantees, target[1:]))
        if not privileges and target.kind not in ("server", "index"):
            inside = store.sees_inside(sql, caller.grantees, target[1:])
            return frozenset((Privilege.DISCOVER,)) if inside else privileges
        return privileges

    def _refusal(self, sql: Sql, request: Request, need: Need) -> CatalogError:
        """Forbidden, or what is said about an object that does not exist."""
        caller, target = request.caller, need.target
        assert caller is not None
        request.refused = True
        if target.kind == "server" or Privilege.DISCOVER in self._privileges(sql, caller, target):
            if target.kind in ("table", "view") and self._is_missing(sql, target):
                request.refused = False  # who may see what is there may see what is not; DuckDB looks before it creates
                return _missing(target)
            return Forbidden(caller.principal, need.privilege.value, str(target))
        if not store.granted(sql, caller.grantees, (target.warehouse, "", "", "")) and not store.sees_inside(
            sql, caller.grantees, (target.warehouse, "", "", "")
        ):
            asked = request.variables.get("prefix") or request.query.get("warehouse")
            if not asked:
                return NoSuchWarehouse("The request names no warehouse, and there is none that you may see")
            return NoSuchWarehouse(f"Warehouse does not exist: {asked}")
        namespace = show(target.namespace.split(SEPARATOR))
        if target.kind == "namespace":
            return NoSuchNamespace(namespace)
        if target.kind == "index" and store.sees_inside(sql, caller.grantees, target[1:]):
            return NoSuchIndex(f"{namespace}.{target.name}.{target.index_name}")
        return _missing(target)

    @staticmethod
    def _is_missing(sql: Sql, target: Target) -> bool:
        relation = relations.find(sql, target.warehouse, Name(tuple(target.namespace.split(SEPARATOR)), target.name))
        return relation is None or relation.kind != target.kind

    def allows(self, sql: Sql, request: Request, need: Need) -> bool:
        """Whether the caller has a privilege on something that the request does not name."""
        caller = request.caller
        return caller is None or need.privilege in caller.ceiling & self._privileges(sql, caller, need.target)

    def require(self, sql: Sql, request: Request, need: Need) -> None:
        """Passes when the caller has what an operation has found that the request needs as well."""
        caller = request.caller
        if caller is None or need in request.needs:
            return
        if need.privilege not in caller.ceiling & self._privileges(sql, caller, need.target):
            raise self._refusal(sql, request, need)
        request.needs = (*request.needs, need)  # for the check in the transaction, and the audit log

    # --- the audit log -----------------------------------------------------------------------------------------------

    def record(self, sql: Sql, request: Request, status: int) -> None:
        """Records a change, in its own transaction: all objects, in several records if they are many."""
        if request.caller is not None:
            for objects in audit.join_objects(_objects(request)):
                audit.add(sql, self._record(request, objects, "allowed", f"status {status}"))

    def note_refusal(self, request: Request, error: CatalogError) -> None:
        """Records a refusal, in one record; not each one of a flood."""
        refused = request.refused or (request.caller is not None and isinstance(error, REFUSALS))
        if self._recorder is not None and refused:
            first, *others = audit.join_objects(_objects(request))
            if others:
                digest = hashlib.sha256("; ".join((first, *others)).encode()).hexdigest()
                first = f"{first[: audit.MOST_CHARACTERS - 100]}... and more, sha256 {digest}"
            self._recorder.note(self._record(request, first, "refused", error.message))

    def _record(self, request: Request, objects: str, decision: str, note: str) -> audit.Record:
        caller = request.caller
        key_id = caller.key_id if caller is not None else _key_id(request.headers)
        return audit.Record(
            self._clock(),
            caller.principal if caller is not None else "",
            key_id,
            request.address,
            request.request_id.decode("ascii", "replace"),
            request.operation,
            objects,
            decision,
            note,
        )

    def close(self) -> None:
        if self._recorder is not None:
            self._recorder.close()

    # --- lists and new objects ---------------------------------------------------------------------------------------

    def privileges(self, request: Request, target: Target) -> frozenset[Privilege]:
        """What the caller may do with an object, as far as its key is good for it."""
        assert request.caller is not None
        return self._privileges(self._database.read(), request.caller, target) & request.caller.ceiling

    def sees(self, request: Request, target: Target) -> bool:
        """Whether the caller may know that an object exists."""
        if request.caller is None:
            return True
        return Privilege.DISCOVER in self._privileges(self._database.read(), request.caller, target)

    def sees_all(self, request: Request, target: Target) -> bool:
        """Whether the caller may know of everything in a warehouse or namespace."""
        if request.caller is None:
            return True
        version, known = request.access_version, (request.caller.grantees, target)
        if self._seen_whole[0] != version or len(self._seen_whole[1]) > MOST_DECISIONS:
            self._seen_whole = (version, set())
        seen = self._seen_whole[1]
        if known in seen:
            return True
        if not store.granted(self._database.read(), request.caller.grantees, target[1:]):
            return False
        seen.add(known)
        return True

    def seen_relations(self, request: Request, warehouse: str, namespace: str) -> Statement | None:
        """The condition that leaves the tables and views that the caller may see; None for all."""
        if request.caller is None or self.sees_all(request, Target("namespace", warehouse, namespace)):
            return None
        return store.seen_relations(request.caller.grantees, warehouse, namespace)

    def seen_namespaces(self, request: Request, warehouse: str, parent: str) -> Statement | None:
        """The same for the namespaces below a parent, or at the top of a warehouse."""
        target = Target("namespace", warehouse, parent) if parent else Target("warehouse", warehouse)
        if request.caller is None or self.sees_all(request, target):
            return None
        return store.seen_namespaces(request.caller.grantees, warehouse)

    def own(self, sql: Sql, request: Request, targets: Sequence[Target]) -> None:
        """Gives the caller `manage` on what it has created, in the transaction that creates it."""
        if request.caller is None:
            return
        request.mention(*(f"new {target}" for target in targets))
        for target in targets:
            statement, parameters = self._ownership(request.caller, target)
            sql.run(statement, *parameters)

    def _ownership(self, caller: Caller, target: Target) -> Statement:
        """The statement that gives a creator `manage`, unless a grant further up does."""
        grant = store.Grant(grantee_of(caller.principal), "manage", target[1:], store.CREATOR, self._clock())
        return store.grant_unless_held(grant, caller.grantees)

    def plan_secret(self, request: Request) -> bytes:
        """What the plan ids of this caller are signed with."""
        return keys.plan_secret(self._pepper, request.caller.principal) if request.caller is not None else b""


def _missing(target: Target) -> NoSuchTable | NoSuchView:
    name = f"{show(target.namespace.split(SEPARATOR))}.{target.name}"
    return NoSuchView(name) if target.kind == "view" else NoSuchTable(name)


def _ends_names(request: Request) -> bool:
    """Whether a request frees the name of a table, view or namespace."""
    return any(need.privilege in (Privilege.DROP, Privilege.PURGE) for need in request.needs)


def _objects(request: Request) -> Iterator[str]:
    """What a request is about, for the audit log."""
    yield from (f"{need.privilege} {need.target}" for need in request.needs)
    yield from request.mentioned


def _bearer(headers: dict[bytes, bytes]) -> bytes:
    """The token of a request."""
    value = headers.get(b"authorization")
    if value is None:
        raise NotAuthenticated("The request has no Authorization header", hint="send a token as 'Bearer frz_...'")
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer":
        raise NotAuthenticated("The Authorization header is not of the scheme Bearer")
    return token.strip()


def _key_id(headers: dict[bytes, bytes]) -> str:
    """The id that an unknown caller's key has, if it is one at all."""
    return keys.key_id_of(headers.get(b"authorization", b"").partition(b" ")[2].strip()) or ""


def _unknown() -> NotAuthenticated:
    """One message for a token that is malformed, unknown, revoked or expired."""
    return NotAuthenticated("The token is not valid, or no longer", hint="frazil token list shows which are")
