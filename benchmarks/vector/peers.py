"""The peers, in a virtual environment of their own in Frazil's cache: none of them is a dependency."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from frazil.artifacts import cache_folder

PACKAGES = ("faiss-cpu==1.15.1", "usearch==2.26.6", "hnswlib==0.8.0", "lancedb==0.40.0")
PEERS = ("lancedb", "faiss-flat", "faiss-ivf", "hnswlib", "usearch")


def python_of_peers() -> Path:
    """The interpreter that has the peers; made at the first use. One that cannot be installed is left out."""
    folder = cache_folder() / "vector-peers-1"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print("  installing faiss, usearch, hnswlib and lancedb, once", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        for package in PACKAGES:
            command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", package]
            if subprocess.run(command, check=False).returncode:
                print(f"  {package} cannot be installed here: left out", file=sys.stderr)
        (folder / "ready").touch()
    return python


def installed(python: Path) -> list[str]:
    """The peers that are there."""
    modules = {"faiss-flat": "faiss", "faiss-ivf": "faiss"}
    return [peer for peer in PEERS if _imports(python, modules.get(peer, peer))]


def _imports(python: Path, module: str) -> bool:
    command = [str(python), "-c", f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)"]
    return subprocess.run(command, check=False).returncode == 0
