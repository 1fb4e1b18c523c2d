"""The conformance page: what the kit found for the Java reference server and for ours on each database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.contract.rck.kit import SWITCHES, Outcome, Outcomes, counts
from tools.iceberg_java import VERSION

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "conformance.md"
REFERENCE = HERE / "reference.json"
COMMAND = "python -m tests.contract.rck"

_PAGE = """# Conformance
Written by `{command}`; `make test` runs the kit again and fails when this page differs from what it finds.

The REST compatibility kit of Apache Iceberg {version} (`RESTCompatibilityKitSuite`) sends a catalog what Java engines send. It runs here
against `frazil serve` as users start it, and was run with the same switches against the Java reference server of the same release
(`RESTCatalogServer`, JDBC on SQLite, strict mode).

| catalog | passed | failed | skipped |
| --- | ---: | ---: | ---: |
{summary}

Switches: {switches}. Names with slashes, nested namespaces and empty namespaces are switched off inside the kit's REST
classes; our own tests cover them. `supports-variant` is not read by this release of the kit.

## Not passed by all
{differences}

## Every test
| test | {names} |
| --- | {rules} |
{rows}
"""  # noqa: E501


def read_reference() -> Outcomes:
    """What the Java reference server gave, as written down by the command above."""
    return {name: Outcome(**facts) for name, facts in json.loads(REFERENCE.read_text()).items()}


def write_reference(outcomes: Outcomes) -> None:
    facts = {name: {"word": outcome.word, "message": _reason(outcome)} for name, outcome in outcomes.items()}
    REFERENCE.write_text(json.dumps(facts, indent=1) + "\n")


def render_page(ours: Mapping[str, Outcomes], reference: Outcomes) -> str:
    """The page as text; the same outcomes give the same page."""
    columns = {"Java reference": reference, **ours}
    tests = sorted(set().union(*columns.values()))
    return _PAGE.format(
        command=COMMAND,
        version=VERSION,
        summary="\n".join(
            f"| {name} | {' | '.join(map(str, counts(value).values()))} |" for name, value in columns.items()
        ),
        switches=", ".join(f"`{key.removeprefix('rck.')}={value}`" for key, value in SWITCHES.items()),
        differences="\n".join(_differences(columns, tests)) or "Nothing.",
        names=" | ".join(columns),
        rules=" | ".join("---" for _ in columns),
        rows="\n".join(
            f"| {test} | {' | '.join(_word(column, test) for column in columns.values())} |" for test in tests
        ),
    )


def _word(outcomes: Outcomes, test: str) -> str:
    return outcomes[test].word if test in outcomes else "absent"


def _differences(columns: Mapping[str, Outcomes], tests: list[str]) -> list[str]:
    lines = []
    for test in tests:
        words = {name: _word(value, test) for name, value in columns.items()}
        if set(words.values()) != {"passed"}:
            same = len(set(words.values())) == 1
            text = next(iter(words.values())) if same else ", ".join(f"{name}: {word}" for name, word in words.items())
            reason = next((m for column in columns.values() if test in column and (m := _reason(column[test]))), "")
            lines.append(f"- {test}: {text}{f' ({reason})' if reason else ''}")
    return lines


def _reason(outcome: Outcome) -> str:
    """The kit's own words for a skip, from the brackets where there are some; messages of failures may hold paths, so
    they stay out.
    """
    if outcome.word != "skipped":
        return ""
    before, bracket, after = outcome.message.partition("[")
    return after.partition("]")[0] if bracket else before.partition("Expecting")[0].strip()
