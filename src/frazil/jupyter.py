"""SQL in notebooks: the IPython magic `%%frazil`, after `%load_ext frazil.jupyter`."""

from __future__ import annotations

import argparse
import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from frazil.errors import ArgumentError

if TYPE_CHECKING:
    from frazil.lake import Lake, Result

USAGE = "%%frazil [--lake NAME] [--at POINT] [--env NAME] [--engine duckdb|trino|spark] [--into NAME], then a query"


class _Options(argparse.ArgumentParser):
    """The options of the magic; a wrong one is an error of ours, and does not end the kernel."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentError("%%frazil", message, expected=USAGE)


class Magic:
    """Runs queries on the lake of the notebook, which is opened when it is first needed."""

    def __init__(self, shell: Any) -> None:  # IPython's shell: this module does not import IPython
        self._shell = shell
        self._lake: Lake | None = None

    def run(self, line: str, cell: str | None = None) -> Result | None:
        """Runs a SQL query over the tables of the lake, and shows its first rows.

        %frazil SELECT count(*) FROM lakehouse.orders

        %%frazil [--lake NAME] [--at POINT] [--env NAME] [--engine duckdb|trino|spark] [--into NAME]
        SELECT country, count(*) FROM lakehouse.orders GROUP BY ALL

        The lake is the variable `lake`, or the one that `--lake` names; without such a variable, the settings of the
        current folder name the catalog. `--at` is a snapshot id, a timestamp, a branch or a tag. `--into` keeps the
        result in a variable in place of showing it.
        """
        options = _parse("" if cell is None else line)
        query = line if cell is None else cell
        if not query.strip():
            raise ArgumentError("%%frazil", query, expected=USAGE)
        result = self._find(options.lake).sql(query, at=options.at, env=options.env, engine=options.engine)
        if options.into is None:
            return result
        self._shell.user_ns[options.into] = result
        return None

    def close(self) -> None:
        """Ends the connections of a lake that the magic has opened."""
        if self._lake is not None:
            self._lake.close()
            self._lake = None

    def _find(self, name: str | None) -> Lake:
        from frazil.lake import Lake, connect

        value = self._shell.user_ns.get(name or "lake")
        if isinstance(value, Lake):
            return value
        if name is not None:
            raise ArgumentError("--lake", name, expected="a variable that holds a Lake, such as frazil.connect() gives")
        self._lake = self._lake or connect()
        return self._lake


def _parse(line: str) -> argparse.Namespace:
    parser = _Options(prog="%%frazil", add_help=False, allow_abbrev=False)
    for option in ("--lake", "--at", "--env", "--into"):
        parser.add_argument(option)
    parser.add_argument("--engine", choices=("duckdb", "trino", "spark"), default="duckdb")
    try:
        words = shlex.split(line)
    except ValueError as exc:
        parser.error(str(exc))
    options = parser.parse_args(words)
    if options.into is not None and not options.into.isidentifier():
        parser.error(f"--into {options.into} is not the name of a variable")
    return options


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext frazil.jupyter`."""
    magic = Magic(shell)
    # IPython would fill $x and {x} of a line from variables, and a query may hold both.
    run = import_module("IPython.core.magic").no_var_expand(lambda line, cell=None: magic.run(line, cell))
    run.__doc__ = Magic.run.__doc__
    shell.register_magic_function(run, magic_kind="line_cell", magic_name="frazil")
    shell._frazil_magic = magic


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext frazil.jupyter`."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("frazil", None)
    shell._frazil_magic.close()
