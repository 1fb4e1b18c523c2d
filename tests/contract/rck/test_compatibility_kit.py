"""The official compatibility kit: every test that the Java reference passes, on both databases."""

from __future__ import annotations

import pytest

from tests.contract.rck import conformance
from tests.contract.rck.kit import Outcomes, run_kit
from tests.contract.rck.servers import OURS

BEYOND_THE_REFERENCE = {
    "CatalogTests.tableCreationWithoutNamespace",
    "CatalogTests.testNamespaceWithDot",
    "CatalogTests.testTableNameWithDot",
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcomes]:
    """What the kit says of our server on each database."""
    outcomes = {}
    for title, server in OURS.items():
        folder = tmp_path_factory.mktemp("kit")
        with server(folder) as uri:
            outcomes[title] = run_kit(uri, folder / "reports")
    return outcomes


@pytest.mark.requirement("flow.backends")
@pytest.mark.parametrize("title", OURS)
def test_every_test_that_the_reference_passes_passes(title: str, outcomes: dict[str, Outcomes]) -> None:
    reference = {test for test, outcome in conformance.read_reference().items() if outcome.word == "passed"}
    wanted = reference | BEYOND_THE_REFERENCE
    passed = {test for test, outcome in outcomes[title].items() if outcome.word == "passed"}
    assert {test: outcomes[title][test].message for test in sorted(wanted - passed)} == {}
    assert len(passed) >= 147


@pytest.mark.parametrize("title", OURS)
def test_no_test_fails(title: str, outcomes: dict[str, Outcomes]) -> None:
    assert {test: outcome.message for test, outcome in outcomes[title].items() if outcome.word == "failed"} == {}


def test_the_conformance_page_says_what_the_kit_found(outcomes: dict[str, Outcomes]) -> None:
    page = conformance.render_page(outcomes, conformance.read_reference())
    assert conformance.PAGE.read_text(encoding="utf-8") == page, (
        f"write the page again with `{conformance.COMMAND}` and commit it"
    )
