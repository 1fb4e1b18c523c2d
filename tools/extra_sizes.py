"""`python -m tools.extra_sizes`: what each extra takes on disk, in MB, for docs/install.md.

Installs the wheel with one extra after another, next to the pinned libraries, and adds up the files of the environment.
What an environment has without Frazil does not count.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = [sys.executable, "-m", "uv", "-q"]


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sys.argv[1:] or ["", *project["optional-dependencies"]]
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        for extra in extras:
            print(f"{extra or 'core':<12} {megabytes(measure(wheel, extra, Path(folder) / 'venv')):>6,}", flush=True)


def measure(wheel: Path, extra: str, environment: Path) -> int:
    """The bytes that the wheel with this extra adds to a new environment."""
    subprocess.run([*UV, "venv", "--clear", "--python", sys.executable, environment], check=True)
    before = _bytes(environment)
    what = f"{wheel}[{extra}]" if extra else str(wheel)
    python = environment / "bin" / "python"
    install = [*UV, "pip", "install", "--python", python, "--constraint", ROOT / "constraints.txt", what]
    subprocess.run(install, check=True)
    return _bytes(environment) - before


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in _files(folder))


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def megabytes(number: int) -> int:
    """
    >>> megabytes(91_400_000)
    91
    """
    return round(number / 1_000_000)


if __name__ == "__main__":
    main()
