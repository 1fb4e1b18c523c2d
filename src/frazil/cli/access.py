"""`frazil token`, `role`, `grant`, `revoke`, `who-can` and `why`: who may do what, in the catalog's database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.catalog import DATABASE
from frazil.cli.context import Context
from frazil.cli.operator import Opened, now_ms, opened_catalog, operator, roots_of
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import ConfigError
from frazil.protocol import PRIVILEGES
from frazil.served import read_all
from frazil.terminal import visible_line
from frazil.units import parse_age

if TYPE_CHECKING:
    from frazil.catalog import NewKey, Target

Command = TypeVar("Command", bound=Callable[..., object])
PRIVILEGE = click.argument("privilege", type=click.Choice(PRIVILEGES))


def _age_ms(option: str, text: str) -> int:
    age_ms = parse_age(text)
    if age_ms is None:
        raise ConfigError(f"{option} '{text}' is not a duration", hint="12h or 90d", option=option)
    return age_ms


def _day(ms: int | None) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC") if ms is not None else "never"


# --- token -----------------------------------------------------------------------------------------------------------


@click.group()
def token() -> None:
    """Make, list, rotate and revoke the API keys of the catalog."""


@token.command("create")
@click.argument("principal")
@click.option("--role", "roles", multiple=True, help="Make the principal a member of this role. May be repeated.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(PRIVILEGES),
    help="Limit the key to this privilege and what it includes. May be repeated.",
)
@click.option("--expires", metavar="AGE", help="The key ends after this time: 12h, 90d.  [default: never]")
@DATABASE
@OUTPUT
@click.pass_obj
def create_(
    context: Context,
    principal: str,
    roles: Sequence[str],
    scopes: Sequence[str],
    expires: str | None,
    database: str | None,
    output: str,
) -> None:
    """Make an API key for a principal, and print it once. The role admin may do everything."""
    from frazil.catalog import create_token, open_pepper

    now = now_ms()
    ends = now + _age_ms("--expires", expires) if expires else None
    with opened_catalog(context, database, needs_pepper=True) as opened:
        pepper = open_pepper(opened.database, opened.pepper_path)
        key = create_token(
            opened.database, pepper, principal, now_ms=now, roles=roles, scopes=scopes, expires_ms=ends, by=operator()
        )
    _show_new(key, output)


def _show_new(key: NewKey, output: str) -> None:
    """The key alone on standard output, so that it can go to a file."""
    if output == "json":
        print_json(asdict(key))
        return
    echo(f"key {key.id} of {key.principal}, expires: {_day(key.expires_ms)}; it is shown only now", err=True)
    echo(key.token)


@token.command("list")
@DATABASE
@OUTPUT
@click.pass_obj
def list_(context: Context, database: str | None, output: str) -> None:
    """List all API keys; never their secrets."""
    from frazil.catalog import list_keys

    with opened_catalog(context, database) as opened:
        stored = list_keys(opened.database.read())
    if output == "json":
        print_json({"keys": [{k: v for k, v in asdict(key).items() if k != "digest"} for key in stored]})
        return
    now = now_ms()
    for key in stored:
        expired = key.expires_ms is not None and key.expires_ms <= now
        state = "revoked" if key.revoked_ms is not None else "expired" if expired else "valid"
        used = f"expires: {_day(key.expires_ms)}  used: {_day(key.used_ms)}"
        echo(f"{key.id}  {key.principal}  {state}  {used}  scopes: {key.scopes or 'all'}")
    echo(f"{len(stored)} keys", err=True)


@token.command("rotate")
@click.argument("key_id")
@click.option("--keep", default="24h", show_default=True, metavar="AGE", help="The old key stays valid for so long.")
@DATABASE
@OUTPUT
@click.pass_obj
def rotate_(context: Context, key_id: str, keep: str, database: str | None, output: str) -> None:
    """Make a key that takes the place of another; both are valid for a while."""
    from frazil.catalog import open_pepper, rotate_token

    keep_ms = _age_ms("--keep", keep)
    with opened_catalog(context, database, needs_pepper=True) as opened:
        pepper = open_pepper(opened.database, opened.pepper_path)
        key = rotate_token(opened.database, pepper, key_id, now_ms=now_ms(), keep_ms=keep_ms, by=operator())
    _show_new(key, output)


@token.command("revoke")
@click.argument("key_id")
@DATABASE
@OUTPUT
@click.pass_obj
def revoke_(context: Context, key_id: str, database: str | None, output: str) -> None:
    """End a key at once, on all servers of this catalog."""
    from frazil.catalog import revoke_token

    with opened_catalog(context, database) as opened:
        key = revoke_token(opened.database, key_id, now_ms=now_ms(), by=operator())
    _say({"id": key.id, "principal": key.principal, "revoked": True}, f"revoked {key.id} of {key.principal}", output)


def _say(result: dict[str, Any], sentence: str, output: str) -> None:
    """The result as a sentence, or as JSON."""
    if output == "json":
        print_json(result)
    else:
        echo(sentence)


# --- role ------------------------------------------------------------------------------------------------------------


@click.group()
def role() -> None:
    """Create, drop and list roles, and change their members."""


@role.command("create")
@click.argument("name")
@DATABASE
@OUTPUT
@click.pass_obj
def create_role_(context: Context, name: str, database: str | None, output: str) -> None:
    """Create a role, which has no privileges yet."""
    from frazil.catalog import create_role

    with opened_catalog(context, database) as opened:
        new = create_role(opened.database, name, now_ms=now_ms(), by=operator())
    sentence = f"created role {name}" if new else f"role {name} exists already"
    _say({"name": name, "created": bool(new)}, sentence, output)


@role.command("drop")
@click.argument("name")
@DATABASE
@OUTPUT
@click.pass_obj
def drop_role_(context: Context, name: str, database: str | None, output: str) -> None:
    """Drop a role with all its grants."""
    from frazil.catalog import drop_role

    with opened_catalog(context, database) as opened:
        drop_role(opened.database, name, now_ms=now_ms(), by=operator())
    _say({"name": name, "dropped": True}, f"dropped role {name}", output)


@role.command("list")
@DATABASE
@OUTPUT
@click.pass_obj
def list_roles(context: Context, database: str | None, output: str) -> None:
    """List roles and their members."""
    from frazil.catalog import all_members

    with opened_catalog(context, database) as opened:
        members = all_members(opened.database.read())
    if output == "json":
        print_json({"roles": [{"name": name, "members": principals} for name, principals in members.items()]})
        return
    for name, principals in members.items():
        echo(f"{name}: {', '.join(principals) or '(no members)'}")


@role.command("add")
@click.argument("name")
@click.argument("principal")
@DATABASE
@OUTPUT
@click.pass_obj
def add_member(context: Context, name: str, principal: str, database: str | None, output: str) -> None:
    """Make a principal a member of a role."""
    _change_member(context, name, principal, database, output, member=True)


@role.command("remove")
@click.argument("name")
@click.argument("principal")
@DATABASE
@OUTPUT
@click.pass_obj
def remove_member(context: Context, name: str, principal: str, database: str | None, output: str) -> None:
    """End the membership of a principal in a role."""
    _change_member(context, name, principal, database, output, member=False)


def _change_member(
    context: Context, name: str, principal: str, database: str | None, output: str, *, member: bool
) -> None:
    from frazil.catalog import change_member

    with opened_catalog(context, database) as opened:
        changed = change_member(opened.database, name, principal, member=member, now_ms=now_ms(), by=operator())
    now = "is" if member else "is not"
    result = {"name": name, "principal": principal, "member": member, "changed": bool(changed)}
    _say(result, f"{principal} {now} a member of {name}" + ("" if changed else ": nothing changed"), output)


# --- grants ----------------------------------------------------------------------------------------------------------


def _object_options(command: Command) -> Command:
    """The object of a grant: a name, or what is above all names."""
    for option in (
        click.option("--index", default="", metavar="NAME", help="The object is this index of the table."),
        click.option("--namespace", is_flag=True, help="The name is that of a namespace, also if a table has it."),
        click.option("--server", is_flag=True, help="The object is the whole server; no name is given."),
        click.option("--warehouse", default="default", show_default=True, metavar="NAME"),
        DATABASE,
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class _Where:
    """Which object is meant: the options of `_object_options`."""

    database: str | None
    warehouse: str
    server: bool
    namespace: bool
    index: str

    def find(self, opened: Opened, name: str | None, served: Collection[str], *, granting: bool) -> Target:
        """The object, which exists; `served` are the warehouses that are not in the database."""
        from frazil.catalog import Target, find_target, find_warehouse_target

        if self.server and name is not None:
            raise click.UsageError("--server takes no name")
        if name is None and (self.index or self.namespace):
            raise click.UsageError("--index and --namespace need a name")
        if self.server:
            return Target("server")
        sql = opened.database.read()
        warehouse = find_warehouse_target(sql, self.warehouse, served, granted=not granting)
        if name is None:
            return warehouse
        return find_target(sql, self.warehouse, name, index=self.index, namespace=self.namespace)


@click.command()
@PRIVILEGE
@click.argument("name", required=False)
@click.option("--to", "grantee", required=True, metavar="ROLE", help="A role, or user:NAME.")
@_object_options
@OUTPUT
@click.pass_obj
def grant(context: Context, /, privilege: str, name: str | None, grantee: str, output: str, **where: Any) -> None:
    """Grant a privilege on a table, view, index, namespace or warehouse.

    Without a NAME it is the warehouse. The privilege holds for everything in the object, too. The object exists, and so
    does the role or user.
    """
    _change_grant(context, privilege, name, grantee, output, adding=True, where=_Where(**where))


@click.command()
@PRIVILEGE
@click.argument("name", required=False)
@click.option("--from", "grantee", required=True, metavar="ROLE", help="A role, or user:NAME.")
@_object_options
@OUTPUT
@click.pass_obj
def revoke(context: Context, /, privilege: str, name: str | None, grantee: str, output: str, **where: Any) -> None:
    """Revoke a privilege, at once on all servers.

    It is the one that was granted on exactly this object; what is granted further up stays.
    """
    _change_grant(context, privilege, name, grantee, output, adding=False, where=_Where(**where))


def _change_grant(
    context: Context, privilege: str, name: str | None, grantee: str, output: str, *, adding: bool, where: _Where
) -> None:
    from frazil.catalog import change_grant

    with _found(context, name, where, granting=adding) as (opened, target):
        changed = change_grant(
            opened.database, privilege, target, grantee, adding=adding, by=operator(), now_ms=now_ms()
        )
    if output == "json":
        print_json({"object": str(target), "privilege": privilege, "grantee": grantee, "changed": changed})
        return
    done = ("granted to" if adding else "revoked from") if changed else ("held by" if adding else "not granted to")
    echo(f"{privilege} on {target}: {done} {grantee}" + ("" if changed else ": nothing changed"))


@contextmanager
def _found(
    context: Context, name: str | None, where: _Where, *, granting: bool = False
) -> Iterator[tuple[Opened, Target]]:
    started = read_all(context.settings.stack.folder.absolute())
    served = {*roots_of(context, where.database), *(name for entry in started for name in entry.warehouses)}
    with opened_catalog(context, where.database) as opened:
        yield opened, where.find(opened, name, served, granting=granting)


@click.command("who-can")
@PRIVILEGE
@click.argument("name", required=False)
@_object_options
@OUTPUT
@click.pass_obj
def who_can(context: Context, /, privilege: str, name: str | None, output: str, **where: Any) -> None:
    """List who has a privilege on an object, and why."""
    _explain(context, name, output, where=_Where(**where), privilege=privilege)


@click.command()
@click.argument("principal")
@click.argument("name", required=False)
@_object_options
@OUTPUT
@click.pass_obj
def why(context: Context, /, principal: str, name: str | None, output: str, **where: Any) -> None:
    """Show what a principal may do with an object, and why."""
    _explain(context, name, output, where=_Where(**where), principal=principal)


def _explain(
    context: Context,
    name: str | None,
    output: str,
    *,
    where: _Where,
    principal: str | None = None,
    privilege: str | None = None,
) -> None:
    from frazil.catalog import explain

    groups = {name: issuer.roles for name, issuer in context.settings.server.oidc.items()}
    with _found(context, name, where) as (opened, target):
        reasons = explain(opened.database.read(), target, principal=principal, privilege=privilege, groups=groups)
    if output == "json":
        print_json({"object": str(target), "grants": [asdict(reason) for reason in reasons]})
        return
    for reason in reasons:
        through = "" if reason.grantee == f"user:{reason.principal}" else f" through the role {reason.grantee}"
        echo(f"{reason.principal}: {reason.privilege} on {reason.on}{through} (granted by {reason.granted_by})")
    if not reasons:
        echo(f"{principal} has no privilege on {target}" if principal else f"no principal has {privilege} on {target}")


# --- audit log -------------------------------------------------------------------------------------------------------


@click.command("audit-log")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="How many of the newest to show.")
@click.option("--actor", metavar="NAME", help="Only what this principal did.")
@click.option("--operation", metavar="NAME", help="Only requests of this kind: dropTable, grant.")
@click.option("--object", "mentions", metavar="TEXT", help="Only what concerns an object with this in its name.")
@click.option("--decision", type=click.Choice(["allowed", "refused"]), help="Only requests that were decided so.")
@click.option("--refused", is_flag=True, help="The same as --decision refused.")
@click.option("--since", metavar="AGE", help="Only what is younger: 30m, 24h, 7d.")
@click.option("--prune", metavar="AGE", help="Delete the records that are older than this: 90d. Shows nothing.")
@DATABASE
@OUTPUT
@click.pass_obj
def audit_log(context: Context, /, database: str | None, output: str, **wanted: Any) -> None:
    """Show who changed what in the catalog, and what was refused."""
    from frazil.catalog import newest_records, prune_records

    if wanted["refused"] and wanted["decision"] == "allowed":
        raise click.UsageError("--refused and --decision allowed exclude each other")
    now, decision = now_ms(), "refused" if wanted["refused"] else wanted["decision"]
    with opened_catalog(context, database) as opened:
        if wanted["prune"]:
            before = now - _age_ms("--prune", wanted["prune"])
            count = opened.database.write(lambda sql: prune_records(sql, before_ms=before))
            print_json({"deleted": count}) if output == "json" else echo(f"deleted {count} records")
            return
        records = newest_records(
            opened.database.read(),
            limit=wanted["limit"],
            actor=wanted["actor"],
            operation=wanted["operation"],
            mentions=wanted["mentions"],
            decision=decision,
            since_ms=now - _age_ms("--since", wanted["since"]) if wanted["since"] else 0,
        )
    if output == "json":
        print_json({"records": [asdict(record) for record in records]})
        return
    for record in records:
        facts = (_day(record.at_ms), record.decision, record.actor or "unknown caller", record.address)
        echo("  ".join(visible_line(fact) for fact in (*facts, record.operation, record.objects, record.note) if fact))
