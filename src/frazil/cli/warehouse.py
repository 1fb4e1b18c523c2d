"""`frazil warehouse`: what a warehouse of the server hands out to clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import click

from frazil.cli.context import Context
from frazil.cli.show import OUTPUT, echo, print_json
from frazil.config import StorageProfile
from frazil.errors import ConfigError

if TYPE_CHECKING:
    from frazil.catalog import Warehouses


@click.group()
def warehouse() -> None:
    """Check the credentials that a warehouse vends."""


@warehouse.command()
@click.argument("name", required=False)
@OUTPUT
@click.pass_context
def check(ctx: click.Context, name: str | None, output: str) -> None:
    """Prove that vended credentials work inside a table's folder and fail outside.

    Takes the server's settings and keys, or those of the local stack where it was started. Writes a few small objects
    below the warehouse, and deletes them. NAME is a warehouse; without it, all that vend are checked. Ends with 1 if
    the store allows too much or too little.
    """
    from frazil.catalog import can_assume, check_vending, open_role, partition_of

    warehouses, profiles = _server(ctx.obj)
    passed, document = True, {}
    for chosen, profile in _chosen(profiles, name).items():
        role, store = profile.role_arn or "", warehouses.named(chosen)
        outcome = check_vending(
            store.place,
            store.access,
            open_role(profile, store.access),
            again=partial(can_assume, profile, store.access),
            partition=partition_of(role),
        )
        passed = passed and outcome.passed
        document[chosen] = {
            "passed": outcome.passed,
            "role": role,
            "ignores_case": outcome.ignores_case,
            "attempts": [
                {"what": attempt.what, "expected": attempt.expected, "got": attempt.got, "passed": attempt.passed}
                for attempt in outcome.attempts
            ],
        }
        if output == "text":
            for attempt in outcome.attempts:
                verdict = "ok    " if attempt.passed else "FAILED"
                wanted = "" if attempt.passed else f", expected {attempt.expected}"
                echo(f"{verdict}  {attempt.what}: {attempt.got}{wanted}")
            if outcome.ignores_case:
                echo("note    this store ignores case: tables whose folders differ in case only get no credentials")
            state = "work inside and fail outside" if outcome.passed else "open too much or too little"
            echo(f"warehouse {chosen}, role {role}: credentials {state}")
    if output == "json":
        print_json({"warehouses": document})
    ctx.exit(0 if passed else 1)


def _server(context: Context) -> tuple[Warehouses, Mapping[str, StorageProfile]]:
    """The warehouses and storage profiles of the server: the local stack's where it was started, else the settings'."""
    from frazil.catalog import Warehouses
    from frazil.services import Catalog, Stack

    server = context.settings.server
    stack = Stack(context.settings).service("catalog")
    assert isinstance(stack, Catalog)
    if stack.state_file.exists():
        context.talk.note(f"the catalog of the stack in {stack.folder.parent}")
        os.environ.update({**stack.s3_place(), **stack.s3_keys()})
        return Warehouses(stack.warehouses, allow_overlap=True), stack.storage
    return Warehouses(server.warehouses, allow_overlap=True), server.storage


def _chosen(profiles: Mapping[str, StorageProfile], name: str | None) -> dict[str, StorageProfile]:
    vending = {known: profile for known, profile in profiles.items() if profile.role_arn is not None}
    if name is None and vending:
        return vending
    if name is None or name not in vending:
        raise ConfigError(
            f"warehouse '{name}' does not vend credentials" if name else "no warehouse vends credentials",
            hint=f"set server.storage.{name or 'NAME'}.role_arn; see docs/catalog.md",
            option=f"server.storage.{name or 'NAME'}.role_arn",
            name=name,
        )
    return {name: vending[name]}
