"""Upkeep that someone asks for, with authentication: who may, what the audit log says, what the state tells whom."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from frazil.catalog import newest_records
from frazil.catalog.store import upkeep as store
from frazil.client import FrazilCatalog
from tests.contract.upkeep_lake import Kept
from tests.kit.access import Guarded, guarded_catalog, namespace, table
from tests.kit.upkeep import make_worker

PATH = "/console/api/default/namespaces/ns/tables/t/upkeep"
STEPS = {"steps": ["manifests", "compact"]}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A catalog with a table of six small files, and a note that a worker is there: the server starts none."""
    folder = tmp_path_factory.mktemp("asked")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}", routes_of=["frazil.console"]) as guarded:
        token = guarded.token("root", roles=["admin"])
        root = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
        root.create_namespace("ns")
        kept = Kept(root, "ns.t").create("day")
        for number in range(6):
            kept.append(number)
        guarded.database.write(lambda sql: store.note_worker(sql, "there", for_ms=3_600_000))
        yield guarded


def test_a_request_is_in_the_audit_log_with_its_change_and_a_refusal_is_too(asked: Guarded) -> None:
    writer, keeper = asked.user("writer", ("write", table("t"))), asked.user("keeper", ("maintain", table("t")))
    assert writer.raw("POST", PATH, STEPS).status == 403
    assert [(record.actor, record.operation) for record in asked.refusals()] == [("writer", "requestUpkeep")]
    answer = keeper.raw("POST", PATH, STEPS)
    assert (answer.status, answer.body["state"], answer.body["request"]["by"]) == (200, "queued", "keeper")
    (record,) = newest_records(asked.database.read(), limit=9, actor="keeper")
    assert (record.operation, record.decision) == ("requestUpkeep", "allowed")
    assert record.objects == "maintain table default: ns.t; steps compact, manifests"
    again = keeper.raw("POST", PATH, {"steps": ["expire"]})
    assert again.body["request"]["steps"] == ["compact", "manifests", "expire"], "what waits is not lost"


def test_what_was_done_in_words_is_for_those_who_maintain_the_warehouse(asked: Guarded) -> None:
    """A message may name other tables and machines."""
    keeper = asked.user("cleaner", ("maintain", table("t")))
    reader = asked.user("reader", ("read", namespace("ns")))
    assert keeper.raw("POST", PATH, {"steps": ["compact"]}).status == 200
    assert reader.raw("GET", PATH).body["request"]["by"] is None
    worker = make_worker(asked.database, {"uri": asked.server.uri, "token": asked.token("root")})
    worker.requested_only = True
    worker.run(once=True)
    state = keeper.raw("GET", PATH).body
    assert (state["allowed"], state["details"], state["request"]) == (True, False, None)
    assert (state["last_run"]["outcome"], state["last_run"]["saved_files"] >= 5) == ("done", True)
    assert {"owner", "message", "did", "asked"}.isdisjoint(state["last_run"])
    whole = asked.admin.raw("GET", PATH).body["last_run"]
    assert (whole["owner"], whole["asked"]["by"]) == (worker.owner, "cleaner")
    assert not reader.raw("GET", PATH).body["allowed"]
