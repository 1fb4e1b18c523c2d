"""The reply to a commit is lost, and a second client commits and expires snapshots before the first one looks: no live
file is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from frazil.client import FrazilCatalog
from frazil.client.transport import Transport
from frazil.errors import CommitConflict, CommitUnknown
from frazil.upkeep.deletes import DeleteRewrite, plan_deletes
from frazil.upkeep.policy import DAY_MS
from tests.contract.upkeep_lake import HURRIED, Kept, with_deleted_rows
from tests.kit.lossy_proxy import LossyProxy, lossy_proxy

COMMIT = b"POST /v1/default/transactions/commit"


@pytest.fixture
def proxy(catalog: FrazilCatalog) -> Iterator[LossyProxy]:
    with lossy_proxy(str(catalog.uri).rstrip("/")) as running:
        yield running


@pytest.fixture
def shaky(proxy: LossyProxy) -> Iterator[FrazilCatalog]:
    """A client through the proxy whose server promises nothing about repeated requests."""
    client = FrazilCatalog("lake", uri=proxy.uri)
    client._session.mount("http://", Transport(keys=False))
    yield client
    client.close()


@pytest.fixture
def kept(catalog: FrazilCatalog) -> Kept:
    return with_deleted_rows(catalog)


def append_and_expire(kept: Kept) -> None:
    """A second client writes, and then only the current snapshot is kept; files that nothing leads to are removed."""
    kept.append(500)
    kept.expire(now_ms=int(time.time() * 1000) + 10 * DAY_MS)


def compact(kept: Kept) -> None:
    kept.compact(retry=HURRIED)


def merge_deletes(kept: Kept) -> None:
    DeleteRewrite(kept.catalog, kept.identifier, HURRIED).run(kept.live, plan_deletes(kept.live, kept.policy))


@pytest.mark.parametrize("work", [compact, merge_deletes])
def test_files_of_a_rewrite_that_was_committed_and_expired_are_kept(
    kept: Kept, shaky: FrazilCatalog, proxy: LossyProxy, work: Callable[[Kept], None]
) -> None:
    proxy.lose_reply(COMMIT, meanwhile=lambda: append_and_expire(kept))
    work(Kept(shaky, kept.name))
    assert kept.ids() == [*range(6), 500]
    assert len(kept.live.snapshots()) <= 2


def test_an_append_that_was_committed_and_expired_is_not_called_a_conflict(
    kept: Kept, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = shaky.load_table(kept.name)
    proxy.lose_reply(b"POST /v1/default/namespaces/lake/tables/", meanwhile=lambda: append_and_expire(kept))
    with pytest.raises(CommitUnknown):
        table.append(kept.live.scan().to_arrow().slice(0, 1))
    assert len(kept.ids()) == 8


def test_an_append_that_was_overtaken_and_never_arrived_is_a_conflict(
    kept: Kept, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    table = shaky.load_table(kept.name)
    kept.append(500)
    proxy.lose_request(b"POST /v1/default/namespaces/lake/tables/")
    with pytest.raises(CommitConflict):
        table.append(kept.live.scan().to_arrow().slice(0, 1))
    assert kept.ids() == [*range(6), 500]


def test_a_ref_that_was_moved_and_written_on_is_not_called_a_conflict(
    kept: Kept, shaky: FrazilCatalog, proxy: LossyProxy
) -> None:
    """A staged snapshot is published, the reply is lost, and another writer appends on top of it."""
    kept.live.manage_snapshots().create_branch(kept.head(), "stage").commit()
    staged = kept.append(400, branch="stage")
    table = shaky.load_table(kept.name)
    proxy.lose_reply(b"POST /v1/default/namespaces/lake/tables/", meanwhile=lambda: kept.append(500))
    with pytest.raises(CommitUnknown):
        table.manage_snapshots().set_current_snapshot(staged).commit()
    assert kept.ids() == [*range(6), 400, 500]
