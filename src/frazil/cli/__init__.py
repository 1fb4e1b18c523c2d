"""The command line: a file a command group. Each command parses, calls the library and prints."""

from frazil.cli.main import main

__all__ = ["main"]
