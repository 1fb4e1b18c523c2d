"""Files of others in the front end: as their authors have published them, with their licences."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files

STATIC = files("frazil.console").joinpath("static")
VENDORED = json.loads(STATIC.joinpath("vendored.json").read_bytes())


def test_vendored_files_are_unchanged() -> None:
    assert {
        asset["file"]: hashlib.sha256(STATIC.joinpath(asset["file"]).read_bytes()).hexdigest() for asset in VENDORED
    } == {asset["file"]: asset["sha256"] for asset in VENDORED}


def test_they_are_of_the_version_that_is_named_and_have_a_licence() -> None:
    assert {(asset["package"], asset["version"]) for asset in VENDORED} == {("uplot", "1.6.32")}
    assert "(v1.6.32)" in STATIC.joinpath("uplot.esm.js").read_text(encoding="utf-8")[:300]
    assert "The MIT License" in STATIC.joinpath("uplot.LICENSE").read_text(encoding="utf-8")
