"""`frazil warehouse`: the warehouses in the catalog's database, and proof of what their credentials open."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from frazil.cli.catalog import DATABASE
from frazil.cli.context import Context
from frazil.cli.operator import database_of, now_ms, opened_catalog, operator, roots_of, stack_catalog
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.errors import ConfigError, WarehouseError
from frazil.units import count

if TYPE_CHECKING:
    from frazil.catalog import Operator, SecretKeys, Warehouse, Warehouses
    from frazil.catalog.storage import Attempt

Command = TypeVar("Command", bound=Callable[..., object])
DELEGATION: dict[str, list[str]] = {
    "vended-credentials": ["vended-credentials"],
    "remote-signing": ["remote-signing"],
    "both": ["vended-credentials", "remote-signing"],
    "none": [],
}
REMOVABLE = ("endpoint", "role_arn", "sts_endpoint")  # by an empty text


@click.group()
def warehouse() -> None:
    """Keep warehouses in the database; check what credentials open."""


def _profile_options(command: Command) -> Command:
    """What the storage profile of a warehouse holds, and where its secret comes from."""
    for option in (
        click.option("--secret-file", metavar="FILE", help="Read the secret of the access key from here; - is stdin."),
        click.option("--secret-from-env", metavar="NAME", help="Take the secret of the access key from this variable."),
        click.option(
            "--access-key-id",
            metavar="ID",
            help="The server's own key for the store; its secret is asked for, or read from where an option says.  "
            "[default: the keys of the server's environment]",
        ),
        click.option(
            "--delegation",
            type=click.Choice(list(DELEGATION)),
            help="How clients may get access to files.  [default: vended-credentials with a role, else none]",
        ),
        click.option(
            "--session-seconds", type=click.IntRange(900, 43200), help="How long credentials last.  [default: 3600]"
        ),
        click.option("--sts-endpoint", metavar="URL", help="Where the role is assumed.  [default: the store's]"),
        click.option("--role-arn", metavar="ARN", help="Vend credentials of this role to clients."),
        click.option(
            "--path-style/--virtual-hosted",
            default=None,
            help="http://host/bucket or http://bucket.host.  [default: path style with an endpoint]",
        ),
        click.option("--region", metavar="NAME", help="The region of the store.  [default: us-east-1]"),
        click.option("--endpoint", metavar="URL", help="The address of the store.  [default: AWS]"),
    ):
        command = option(command)
    return command


@warehouse.command("create")
@click.argument("name")
@click.argument("root", metavar="LOCATION")
@_profile_options
@DATABASE
@OUTPUT
@click.pass_obj
def create_(context: Context, /, name: str, root: str, database: str | None, output: str, **options: Any) -> None:
    """Create a warehouse at LOCATION: s3://bucket/path, or a folder.

    Running servers serve it at once. A secret is stored encrypted, which needs server.secret_key_file. It cannot be
    given on the command line, where other users of the machine can read it.
    """
    from frazil.catalog import create_warehouse, describe_warehouse

    fields, secret = _fields(options), _secret(options)
    with opened_catalog(context, database) as opened:
        row = create_warehouse(opened.database, name, root, fields, secret, _operator(context, database))
    _say(describe_warehouse(row), f"created warehouse {name} at {row.root}", output)


@warehouse.command("update")
@click.argument("name")
@_profile_options
@click.option("--forget-keys", is_flag=True, help="Use the keys of the server's environment from now on.")
@DATABASE
@OUTPUT
@click.pass_obj
def update_(
    context: Context, /, name: str, database: str | None, output: str, forget_keys: bool, **options: Any
) -> None:
    """Change the storage profile or the keys of a warehouse; what is not named stays.

    An empty text removes an endpoint or a role. Running servers notice within two seconds. The location stays: tables
    lie there.
    """
    from frazil.catalog import describe_warehouse, update_warehouse

    changes, secret = _fields(options), _secret(options)
    if forget_keys and (secret is not None or "access_key_id" in changes):
        raise click.UsageError("--forget-keys and a new key exclude each other")
    if not changes and secret is None and not forget_keys:
        raise click.UsageError("nothing to change: name an option")
    with opened_catalog(context, database) as opened:
        row = update_warehouse(
            opened.database, name, changes, secret, _operator(context, database), forget_keys=forget_keys
        )
    _say(describe_warehouse(row), f"changed warehouse {name}", output)


@warehouse.command("list")
@DATABASE
@OUTPUT
@click.pass_obj
def list_(context: Context, database: str | None, output: str) -> None:
    """List the warehouses in the database, and those in the settings; never secrets."""
    from frazil.catalog import describe_warehouse, list_warehouses

    with opened_catalog(context, database) as opened:
        stored = [describe_warehouse(row) for row in list_warehouses(opened.database.read())]
    settings = [{"name": name, "root": root} for name, root in roots_of(context, database).items()]
    if output == "json":
        print_json({"warehouses": stored, "settings": settings})
        return
    for item in stored:
        keys = f"key {item['access_key_id']}" if item["access_key_id"] else "keys of the environment"
        delegation = ", ".join(item["delegation"]) or "none"
        echo(f"{item['name']}  {item['root']}  {item['endpoint'] or 'AWS'}  {keys}  delegation: {delegation}")
    for item in settings:
        echo(f"{item['name']}  {item['root']}  in the settings")
    context.talk.note(f"{count(len(stored), 'warehouse')} in the database, {len(settings)} in the settings")


@warehouse.command("show")
@click.argument("name")
@DATABASE
@OUTPUT
@click.pass_obj
def show_(context: Context, name: str, database: str | None, output: str) -> None:
    """Show the storage profile of a warehouse in the database; never its secret."""
    from frazil.catalog import describe_warehouse, find_warehouse

    with opened_catalog(context, database) as opened:
        described = describe_warehouse(find_warehouse(opened.database.read(), name))
    if output == "json":
        print_json(described)
        return
    for key, value in described.items():
        shown = ", ".join(value) or "none" if isinstance(value, list) else "-" if value is None else value
        echo(f"{key.replace('_', ' ')}: {shown}")


@warehouse.command("drop")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@DATABASE
@OUTPUT
@click.pass_obj
def drop_(context: Context, name: str, yes: bool, database: str | None, output: str) -> None:
    """Drop an empty warehouse, with the grants on it. No file is deleted.

    Says what would be dropped, and asks. As JSON it does not ask: without --yes nothing is dropped.
    """
    from frazil.catalog import drop_warehouse, find_warehouse, warehouse_contents

    with opened_catalog(context, database) as opened:
        sql = opened.database.read()
        row, held = find_warehouse(sql, name), warehouse_contents(sql, name)
        context.talk.note(f"warehouse {name} at {row.root}: {held.namespaces} namespaces, {held.grants} grants")
        is_empty = not held.namespaces and not held.tables
        asks = is_empty and not yes and output == "text"
        dropped = yes or (asks and click.confirm("drop it? No file is deleted", err=True))
        if dropped or not is_empty:  # what is not empty is refused, and the refusal says why
            drop_warehouse(opened.database, name, _operator(context, database))
    document = {"name": name, "root": row.root, "grants": held.grants, "dropped": dropped}
    _say(document, f"dropped warehouse {name}" if dropped else "nothing was dropped", output)


@warehouse.command("new-key")
@click.argument("file", type=click.Path(path_type=Path))
@OUTPUT
def new_key(file: Path, output: str) -> None:
    """Write a new key for secrets to FILE, which only its owner can read. Then set server.secret_key_file to it."""
    from frazil.catalog import make_secret_key

    key_id = make_secret_key(file).id
    sentence = f"key {key_id} is in {file}: keep a copy elsewhere, without it secrets are lost"
    _say({"key_id": key_id, "file": str(file)}, sentence, output)


@warehouse.command("rekey")
@click.option(
    "--old-key-file", type=click.Path(path_type=Path), metavar="FILE", help="The key that secrets are encrypted with."
)
@DATABASE
@OUTPUT
@click.pass_obj
def rekey_(context: Context, old_key_file: Path | None, database: str | None, output: str) -> None:
    """Encrypt all secrets with the key of server.secret_key_file, in one transaction.

    They are read with the old key: the one that an option names, or a further line of server.secret_key_file.
    """
    from dataclasses import replace

    from frazil.catalog import read_secret_keys, rekey_warehouses

    keys = _keys(context)
    if keys is None:
        hint = "frazil warehouse new-key FILE makes one; then set server.secret_key_file"
        raise ConfigError("there is no key to encrypt with", hint=hint, option="server.secret_key_file")
    whole = keys.with_older(read_secret_keys(old_key_file)) if old_key_file is not None else keys
    with opened_catalog(context, database) as opened:
        changed = rekey_warehouses(opened.database, replace(_operator(context, database), keys=whole))
    text = f"encrypted {count(len(changed), 'secret')} with the key {keys.id}"
    _say({"key_id": keys.id, "warehouses": changed}, text, output)


# --- options ---------------------------------------------------------------------------------------------------------


def _fields(options: Mapping[str, Any]) -> dict[str, object]:
    """The fields of the storage profile that were given; an empty text removes one."""
    names = ("endpoint", "region", "path_style", "access_key_id", "role_arn", "sts_endpoint", "session_seconds")
    fields = {name: options[name] for name in names if options[name] is not None}
    fields = {name: None if name in REMOVABLE and value == "" else value for name, value in fields.items()}
    if options["delegation"] is not None:
        fields["delegation"] = DELEGATION[options["delegation"]]
    return fields


def _secret(options: Mapping[str, Any]) -> str | None:
    """The secret of the access key, from where an option says; from a prompt, if there is a key and no such option."""
    variable, file = options["secret_from_env"], options["secret_file"]
    if variable is not None and file is not None:
        raise click.UsageError("--secret-from-env and --secret-file exclude each other")
    if variable is not None:
        text = os.environ.get(variable, "").strip()
        where = f"the environment variable {variable}"
    elif file is not None:
        text, where = _read(file), f"the file {file}"
    elif options["access_key_id"] is None:
        return None
    elif sys.stdin.isatty():
        return str(click.prompt("Secret access key", hide_input=True, err=True))
    else:
        raise click.UsageError("the secret of the access key is missing: --secret-file or --secret-from-env")
    if not text:
        raise WarehouseError(f"{where} is not set or empty", option="secret")
    return text


def _read(file: str) -> str:
    try:
        return (sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")).strip()
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise WarehouseError(f"cannot read {file}: {reason}", path=file, option="secret") from None


def _say(document: Mapping[str, Any], text: str, output: str) -> None:
    if output == "json":
        print_json(document)
    else:
        echo(text)


# --- the server ------------------------------------------------------------------------------------------------------


def _operator(context: Context, database: str | None) -> Operator:
    from frazil.catalog import Operator

    overlap = context.settings.server.allow_overlap
    return Operator(operator(), now_ms(), _keys(context), roots_of(context, database), overlap)


def _keys(context: Context) -> SecretKeys | None:
    from frazil.catalog import open_secret_keys

    return open_secret_keys(*context.settings.server.secret_keys)


# --- check -----------------------------------------------------------------------------------------------------------


@warehouse.command()
@click.argument("name", required=False)
@DATABASE
@OUTPUT
@click.pass_context
def check(ctx: click.Context, name: str | None, database: str | None, output: str) -> None:
    """Prove that vended credentials and signed requests work inside a table's folder and fail outside.

    Takes the server's settings and keys, or those of the local stack where it was started, and for a warehouse in the
    database the keys there. Writes a few small objects below the warehouse, and deletes them. NAME is a warehouse;
    without it, all that vend or sign are checked. Ends with 1 if the store allows too much or too little.
    """
    document = {}
    for chosen in _chosen(ctx.obj, name, database):
        talks, role = output == "text", chosen.profile.role_arn
        result: dict[str, Any] = {"passed": True, "role": role, "ignores_case": None, "batch_deletes": None}
        attempts = _check_vending(chosen, result, talks=talks) if chosen.vends else ()
        if chosen.signs:
            attempts = (*attempts, *_check_signing(chosen, result, talks=talks))
        result["passed"] = all(attempt.passed for attempt in attempts)
        result["attempts"] = [
            {"what": attempt.what, "expected": attempt.expected, "got": attempt.got, "passed": attempt.passed}
            for attempt in attempts
        ]
        document[chosen.name] = result
    if output == "json":
        print_json({"warehouses": document})
    ctx.exit(0 if all(result["passed"] for result in document.values()) else 1)


def _check_vending(chosen: Warehouse, result: dict[str, Any], *, talks: bool) -> tuple[Attempt, ...]:
    from frazil.catalog import can_assume, check_vending, open_role, partition_of

    role = chosen.profile.role_arn or ""
    outcome = check_vending(
        chosen.place,
        chosen.access,
        open_role(chosen.profile, chosen.access),
        again=partial(can_assume, chosen.profile, chosen.access),
        partition=partition_of(role),
    )
    result["ignores_case"] = outcome.ignores_case
    if talks:
        _show(outcome.attempts)
        if outcome.ignores_case:
            echo("note    this store ignores case: tables whose folders differ in case only get no credentials")
        state = "work inside and fail outside" if outcome.passed else "open too much or too little"
        echo(f"warehouse {chosen.name}, role {role}: credentials {state}")
    return outcome.attempts


def _check_signing(chosen: Warehouse, result: dict[str, Any], *, talks: bool) -> tuple[Attempt, ...]:
    from frazil.catalog import check_signing, open_signer

    outcome = check_signing(open_signer(chosen.access, chosen.place))
    result["batch_deletes"] = outcome.batch_deletes
    if talks:
        _show(outcome.attempts)
        if not outcome.batch_deletes:
            signed = "signed all the same" if chosen.profile.unchecked_batch_deletes else "not signed"
            echo(f"note    this store does not compare bodies with their signed hash: batch deletes are {signed}")
        state = "work inside and fail outside" if outcome.passed else "open too much or too little"
        echo(f"warehouse {chosen.name}: signed requests {state}")
    return outcome.attempts


def _show(attempts: Iterable[Attempt]) -> None:
    for attempt in attempts:
        verdict = "ok    " if attempt.passed else "FAILED"
        wanted = "" if attempt.passed else f", expected {attempt.expected}"
        echo(f"{verdict}  {attempt.what}: {attempt.got}{wanted}")


def _chosen(context: Context, name: str | None, database: str | None) -> list[Warehouse]:
    """The warehouse of this name, or all that vend or sign."""
    warehouses = _of_settings(context, database)
    stored = _of_database(context, database) if name is None or warehouses.find(name) is None else []
    if conflicts := warehouses.replace_stored(stored):
        raise conflicts[0]
    known = warehouses.find(name) if name is not None else None
    offering = [warehouse for warehouse in warehouses if warehouse.vends or warehouse.signs]
    chosen = [warehouse for warehouse in offering if name is None or warehouse == known]
    if not chosen:
        setting = f"server.storage.{name or 'NAME'}"
        hint = f"set {setting}.role_arn or {setting}.remote_signing, or frazil warehouse update {name or 'NAME'}"
        who = f"warehouse '{name}' neither vends credentials nor" if name else "no warehouse vends credentials or"
        raise ConfigError(
            f"{who} signs requests", hint=f"{hint}; see docs/catalog.md", option=f"{setting}.role_arn", name=name
        )
    return chosen


def _of_settings(context: Context, database: str | None) -> Warehouses:
    from frazil.catalog import Warehouses

    server, stack = context.settings.server, stack_catalog(context)
    if stack is None or database is not None:
        return Warehouses(server.warehouses, profiles=server.storage, allow_overlap=True)
    context.talk.note(f"the catalog of the stack in {stack.folder.parent}")
    os.environ.update({**stack.s3_place(), **stack.s3_keys()})
    return Warehouses(stack.warehouses, profiles=stack.storage, allow_overlap=True)


def _of_database(context: Context, database: str | None) -> list[Warehouse]:
    """The warehouses of the database; none if there is no database yet."""
    from frazil.catalog import list_warehouses, open_stored

    url = database_of(context.settings_with(server__database=database))
    if url.startswith("sqlite:///") and not Path(url.removeprefix("sqlite:///")).exists():
        return []
    with opened_catalog(context, database) as opened:
        return [open_stored(row, _keys(context)) for row in list_warehouses(opened.database.read())]
