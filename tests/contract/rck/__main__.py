"""`python -m tests.contract.rck`: runs the kit against the Java reference and both of our servers, and writes
the page.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.contract.rck import conformance
from tests.contract.rck.kit import Outcomes, counts, run_kit
from tests.contract.rck.servers import OURS
from tools.iceberg_java import reference_server


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with reference_server(folder / "reference") as (uri, _):
            reference = run_kit(uri, folder / "reference")
        _print("Java reference", reference)
        conformance.write_reference(reference)
        ours = {}
        for title, server in OURS.items():
            # a space is no character of a URI, and one test makes a URI of the location
            place = folder / title.replace(" ", "-")
            with server(place) as uri:
                ours[title] = run_kit(uri, place / "reports")
            _print(title, ours[title])
        conformance.PAGE.write_text(conformance.render_page(ours, reference), encoding="utf-8")
    print(f"written: {conformance.PAGE}")


def _print(title: str, outcomes: Outcomes) -> None:
    print(title, counts(outcomes))
    for test, outcome in outcomes.items():
        if outcome.word == "failed":
            print(f"  failed {test}: {outcome.message[:300]}")


if __name__ == "__main__":
    main()
