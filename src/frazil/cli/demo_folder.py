"""The folder of `frazil demo`: the examples, each a project, on one local stack."""

from __future__ import annotations

import shutil
from pathlib import Path

from frazil.errors import ProjectError
from frazil.local_stack import FOLDER_NAME

EXAMPLES = ("sales", "uplink", "transpile", "vectors")
SETTINGS_NAME = "frazil.toml"
SETTINGS = f"""# The examples of this folder share one stack, on ports that it chooses.
[stack]
folder = "../{FOLDER_NAME}"

[stack.ports]
catalog = 0
object_store = 0
kafka = 0
spark = 0
"""
LEFT_OUT = shutil.ignore_patterns(FOLDER_NAME, "landing", "queries", "recovery", "checkpoint", "__pycache__")


def copy_examples(folder: Path) -> None:
    """Puts the examples into a new or empty folder; one that has them already stays as it is."""
    if all((folder / name / SETTINGS_NAME).exists() for name in EXAMPLES):
        return
    if folder.exists() and any(path.name not in EXAMPLES for path in folder.iterdir()):
        raise ProjectError(
            f"{folder.resolve()} holds other files, and no examples",
            hint="name an empty or new folder: frazil demo my-demo",
            path=str(folder.resolve()),
        )
    for name in EXAMPLES:
        shutil.copytree(examples() / name, folder / name, ignore=LEFT_OUT, dirs_exist_ok=True)
        (folder / name / SETTINGS_NAME).write_text(SETTINGS)


def examples() -> Path:
    """Where the examples are: inside a wheel in the package, in a checkout next to src/."""
    package = Path(__file__).resolve().parent.parent
    return next(path for path in (package / "examples", package.parent.parent / "examples") if path.exists())
