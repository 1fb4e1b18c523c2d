"""Limits per principal, and the address of a client behind a proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog import newest_records
from frazil.catalog.access.quotas import BURST_SECONDS, Quota
from frazil.client import FrazilCatalog
from frazil.config import Limits
from frazil.errors import QuotaExceeded
from tests.kit.access import guarded_catalog, namespace
from tests.kit.catalog_databases import SCHEMA

TABLE = "/namespaces/ns/tables/t"


def test_a_quota_fills_again_and_one_request_may_cost_more_than_is_left() -> None:
    now = [100.0]
    quota = Quota(2.0, "requests", now=lambda: now[0])
    for _ in range(int(2 * BURST_SECONDS) + 1):
        quota.take("ann", 1)
    with pytest.raises(QuotaExceeded) as refused:
        quota.take("ann", 1)
    assert (refused.value.principal, refused.value.retry_seconds) == ("ann", 1)
    quota.take("bob", 100)
    with pytest.raises(QuotaExceeded) as refused:
        quota.check("bob")
    assert refused.value.retry_seconds == 45
    now[0] += 45
    quota.check("bob")
    quota.take("ann", 1)


@pytest.mark.parametrize("kind", ["fast", "asgi"])
def test_requests_of_a_principal_are_limited_and_those_of_others_are_not(tmp_path: Path, kind: str) -> None:
    limits = Limits(principal_requests=0.001)
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}", limits=limits) as guarded:
        guarded.admin.post("/namespaces", {"namespace": ["ns"]})
        ann, bob = (guarded.user(name, ("read", namespace("ns"))) for name in ("ann", "bob"))
        path = TABLE if kind == "fast" else "/namespaces/ns/functions"
        assert [ann.get(path).status for _ in range(3)] == [404 if kind == "fast" else 200, 429, 429]
        refused = ann.get(path)
        assert refused.error[:2] == (429, "TooManyRequestsException")
        assert int(refused.headers["retry-after"]) > 1
        assert bob.get(path).status != 429


def test_bodies_of_a_principal_are_limited(tmp_path: Path) -> None:
    limits = Limits(principal_body_bytes=1)
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}", limits=limits) as guarded:
        body = {"namespace": ["ns"], "properties": {"a": "b" * 100}}
        assert guarded.admin.post("/namespaces", body).status == 200
        refused = guarded.admin.post("/namespaces/ns/tables", {"name": "t", "schema": SCHEMA})
        assert refused.status == 429
        assert 60 <= int(refused.headers["retry-after"]) <= 150


PREVIEWS = "/console/api/default/namespaces/ns/tables/t"
SEARCH = {"column": "embedding", "vector": [1.0, 2.0]}
PLANS: dict[str, tuple[Any, ...]] = {
    "plan": ("POST", f"/v1/default{TABLE}/plan", {}),
    "search": ("POST", f"/v1/default{TABLE}/search", SEARCH),
    "rows": ("GET", f"{PREVIEWS}/rows"),
    "files": ("GET", f"{PREVIEWS}/files"),
    "partitions": ("GET", f"{PREVIEWS}/partitions"),
    "compaction": ("GET", f"{PREVIEWS}/compaction"),
    "query": ("POST", "/console/api/default/query", {"sql": "SELECT * FROM ns.t"}),
    "csv": ("POST", "/console/api/default/query/csv", {"sql": "SELECT * FROM ns.t"}),
}


def test_whatever_plans_takes_from_the_same_limit(tmp_path: Path) -> None:
    limits, files = Limits(principal_plan_files=0.001), 3
    schema = pa.schema([("embedding", pa.list_(pa.float32()))])
    with guarded_catalog(
        tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}", limits=limits, routes_of=["frazil.console"]
    ) as guarded:
        guarded.admin.post("/namespaces", {"namespace": ["ns"]})
        token = str(guarded.admin.session.headers["Authorization"]).removeprefix("Bearer ")
        lake = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
        points = lake.create_table("ns.t", schema)
        for _ in range(files):
            points.append(pa.table({"embedding": [[1.0, 2.0]]}, schema=schema))
        for name, call in PLANS.items():
            # one request goes into debt by its files, whichever it is, and the next one is refused
            client = guarded.user(name, ("read", namespace("ns")))
            assert client.raw(*call).status == 200, name
            for other, again in PLANS.items():
                refused = client.raw(*again)
                assert refused.error[:2] == (429, "TooManyRequestsException"), (name, other)
                assert 900 * files < int(refused.headers["retry-after"]) <= 1000 * files, (name, other)


@pytest.mark.parametrize(("behind_proxy", "address"), [(True, "192.0.2.7"), (False, "127.0.0.1")])
def test_the_address_behind_a_proxy_is_its_last_hop(tmp_path: Path, behind_proxy: bool, address: str) -> None:
    with guarded_catalog(tmp_path, f"sqlite:///{tmp_path / 'catalog.db'}") as guarded:
        guarded.server.app.ctx.behind_proxy = behind_proxy
        headers = {"X-Forwarded-For": "6.6.6.6, 192.0.2.7"}
        assert guarded.admin.post("/namespaces", {"namespace": ["ns"]}, headers=headers).status == 200
        assert guarded.admin.post("/namespaces", {"namespace": ["x"]}, headers={"X-Forwarded-For": "?"}).status == 200
        records = newest_records(guarded.database.read(), limit=2, actor="root")
    assert [record.address for record in records] == [address, "127.0.0.1"]
