"""Grants over REST, and grants as code: declared with a table, planned, applied, and found when changed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from frazil import Table, column
from frazil.catalog import create_role, running_catalog
from frazil.catalog.access.privileges import Privilege
from frazil.cli.main import cli
from frazil.client import FrazilCatalog
from frazil.client.grants import Grant
from frazil.errors import AccessError, DeclarationError
from frazil.protocol import PRIVILEGES
from frazil.tables import apply_steps, load_plan, open_grants, plan_all, save_plan
from frazil.tables.steps import ChangeGrants
from tests.contract.catalog.test_indexes import record
from tests.kit.access import VIEW, Guarded, guarded_catalog, namespace, now_ms, pair, table

GRANTS = "/namespaces/ns/tables/t/grants"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("grants")
    with guarded_catalog(folder, f"sqlite:///{folder / 'catalog.db'}") as running:
        running.admin.create()
        for role in ("analyst", "etl"):
            create_role(running.database, role, now_ms=now_ms())
        yield running


@pytest.fixture
def owner(guarded: Guarded) -> Iterator[FrazilCatalog]:
    """A client that may create and read tables in `ns`, and therefore manages those that it creates."""
    token = guarded.token("owner")
    guarded.admin.post("/namespaces/ns/grants", {"grant": [pair("user:owner", p) for p in ("create", "read")]})
    catalog = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
    yield catalog
    catalog.close()


def held(guarded: Guarded, path: str = GRANTS) -> set[tuple[str, str]]:
    grants = guarded.admin.get(path).body["grants"]
    return {(grant["grantee"], grant["privilege"]) for grant in grants}


def test_declared_privileges_are_those_of_the_catalog() -> None:
    assert tuple(Privilege) == PRIVILEGES


def test_grants_change_together_or_not_at_all(guarded: Guarded) -> None:
    before = held(guarded)
    changes = {"grant": [pair("analyst", "read"), pair("etl", "write")], "revoke": [pair("etl", "drop")]}
    assert guarded.admin.post(GRANTS, changes).status == 200
    assert held(guarded) == before | {("analyst", "read"), ("etl", "write")}
    for wrong in (pair("stranger", "read"), pair("user:stranger", "read"), pair("analyst", "everything"), {}, "x"):
        answer = guarded.admin.post(GRANTS, {"revoke": [pair("etl", "write")], "grant": [wrong]})
        assert answer.status == 400, wrong
    assert held(guarded) == before | {("analyst", "read"), ("etl", "write")}
    assert guarded.admin.post(GRANTS, {"revoke": changes["grant"]}).status == 200
    assert held(guarded) == before


def test_grants_on_a_view_are_its_own(guarded: Guarded) -> None:
    guarded.admin.post("/namespaces/ns/views", VIEW)
    token, path = guarded.token("vic"), "/namespaces/ns/views/v/grants"
    guarded.admin.post(path, {"grant": [pair("user:vic", "manage")]})
    vic = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
    assert vic.change_grants("ns.v", grant=[("analyst", "read")], kind="view") == [
        Grant("analyst", "read"),
        Grant("user:vic", "manage"),
    ]
    assert held(guarded, path) == {("analyst", "read"), ("user:vic", "manage")}
    assert ("analyst", "read") not in held(guarded)
    with pytest.raises(AccessError) as refused:
        vic.list_grants("ns.v")  # there is no table of this name
    assert refused.value.problem == "404"
    assert guarded.admin.get("/namespaces/ns/views/t/grants").status == 404
    assert vic.change_grants("ns.v", revoke=[("analyst", "read")], kind="view") == vic.list_grants("ns.v", kind="view")
    vic.close()


def test_grants_on_an_index_open_that_index_alone_and_end_with_it(guarded: Guarded) -> None:
    location, path = guarded.admin.load()["metadata"]["location"], "/namespaces/ns/tables/t/indexes"
    for name in ("i", "j"):
        assert guarded.admin.post(path, {"name": name, "record": record(location)}).status == 200
    ida = guarded.user("ida")
    guarded.admin.post(f"{path}/i/grants", {"grant": [pair("user:ida", "read")]})
    assert ida.get(f"{path}/i").status == 200
    assert [ida.post(f"{path}/i", {}).status, ida.delete(f"{path}/i").status] == [403, 403]
    hidden, missing = (ida.get(f"{path}/{name}") for name in ("j", "k"))
    assert (hidden.error[0], str(hidden.body).replace(".j", ".k")) == (404, str(missing.body))
    listed = ida.get("/namespaces/ns/tables").body["identifiers"]
    assert [entry["name"] for entry in listed] == ["t"]  # what holds something that can be seen can be seen
    assert [ida.get(each).status for each in ("/namespaces/ns/tables/t", path, f"{path}/i/grants")] == [403, 403, 403]
    guarded.admin.post(f"{path}/i/grants", {"grant": [pair("user:ida", "manage")]})
    assert ida.post(f"{path}/i/grants", {"grant": [pair("analyst", "maintain")]}).status == 200
    assert held(guarded, f"{path}/i/grants") == {("user:ida", "read"), ("user:ida", "manage"), ("analyst", "maintain")}
    assert ida.delete(f"{path}/i").status == 204
    assert guarded.admin.get(f"{path}/i/grants").error[:2] == (404, "NoSuchIndexException")
    assert guarded.admin.post(path, {"name": "i", "record": record(location)}).status == 200
    assert held(guarded, f"{path}/i/grants") == set()
    assert ida.get(f"{path}/i").error[:2] == (404, "NoSuchWarehouseException")  # there is nothing left that it may see


def test_grants_on_an_index_are_changed_by_the_client_and_move_with_its_table(guarded: Guarded) -> None:
    location = guarded.admin.create("moved")["metadata"]["location"]
    path = "/namespaces/ns/tables/{}/indexes"
    guarded.admin.post(path.format("moved"), {"name": "i", "record": record(location)})
    guarded.admin.post(f"{path.format('moved')}/i/grants", {"grant": [pair("user:root", "manage")]})
    root = FrazilCatalog("lake", uri=guarded.server.uri, token=guarded.token("root"))
    ivo = guarded.user("ivo")
    change = root.change_grants("ns.moved", grant=[("user:ivo", "read")], index="i")
    assert change == [Grant("user:ivo", "read"), Grant("user:root", "manage")]
    assert root.list_grants("ns.moved", index="i") == change
    root.rename_table("ns.moved", "ns.renamed")
    root.close()
    assert ivo.get(f"{path.format('renamed')}/i").status == 200
    guarded.admin.delete("/namespaces/ns/tables/renamed")
    guarded.admin.create("renamed")
    assert ivo.get(f"{path.format('renamed')}/i").status == 404


def test_only_manage_changes_grants_and_it_ends_at_once(guarded: Guarded) -> None:
    user = guarded.user("mia", ("maintain", table("t")))
    own = {"grant": [pair("user:mia", "manage")]}
    assert (user.get(GRANTS).status, user.post(GRANTS, own).status) == (403, 403)
    assert guarded.admin.post(GRANTS, own).status == 200
    assert user.post(GRANTS, {"grant": [pair("analyst", "read")]}).status == 200
    assert user.post("/namespaces/ns/grants", {"grant": [pair("user:mia", "manage")]}).status == 403
    both = {"revoke": [pair("user:mia", "manage"), pair("user:mia", "maintain"), pair("analyst", "read")]}
    assert user.post(GRANTS, both).status == 200
    assert user.get(GRANTS).status == 404
    scoped = guarded.user("max", ("manage", namespace("ns")), scopes=["maintain"])
    assert scoped.post(GRANTS, own).status == 403
    guarded.revoke("manage", namespace("ns"), "max")


def test_grants_on_what_does_not_exist_are_404(guarded: Guarded) -> None:
    body = {"grant": [pair("analyst", "read")]}
    for path in ("/namespaces/ns/tables/nope/grants", "/namespaces/nope/grants", "/namespaces/nope/tables/t/grants"):
        assert (guarded.admin.get(path).status, guarded.admin.post(path, body).status) == (404, 404)


def declared(name: str, **grants: str | list[str]) -> Table:
    return Table(f"ns.{name}", column("id", "long"), grants=grants)


def test_apply_makes_the_grants_that_are_declared_and_no_others(guarded: Guarded, owner: FrazilCatalog) -> None:
    sales, plain = declared("sales", analyst="read", etl=["write", "drop"]), Table("ns.plain", column("id", "long"))
    steps = plan_all([sales, plain], owner)
    assert steps[1] == ChangeGrants("ns.sales", (("analyst", "read"), ("etl", "drop"), ("etl", "write")), ())
    list(apply_steps(steps, owner))
    path = "/namespaces/ns/tables/sales/grants"
    expected = {("analyst", "read"), ("etl", "write"), ("etl", "drop"), ("user:owner", "manage")}
    assert held(guarded, path) == expected
    assert plan_all([sales, plain], owner) == []
    owner.change_grants("ns.plain", grant=[("analyst", "write")])
    assert plan_all([sales, plain], owner) == []  # a table without grants= is not touched
    [step] = plan_all([declared("sales", analyst="read")], owner)
    assert (str(step).splitlines()[1:], step.removes) == (["    - grant drop to etl", "    - grant write to etl"], True)
    assert plan_all([Table("ns.sales", column("id", "long"))], owner) == []
    list(apply_steps(plan_all([declared("sales")], owner), owner))
    assert held(guarded, path) == {("user:owner", "manage")}


def test_a_plan_with_grants_is_saved_and_applied_later(owner: FrazilCatalog, tmp_path: Path) -> None:
    orders = declared("orders", analyst="read")
    steps = plan_all([orders], owner)
    save_plan(steps, tmp_path / "plan.json")
    assert load_plan(tmp_path / "plan.json") == steps
    list(apply_steps(load_plan(tmp_path / "plan.json"), owner))
    assert plan_all([orders], owner) == []


def test_a_role_that_does_not_exist_is_an_error_of_the_plan(owner: FrazilCatalog) -> None:
    with pytest.raises(DeclarationError) as caught:
        plan_all([declared("new", analyst="read", stranger="read")], owner)
    assert (caught.value.table, caught.value.option) == ("ns.new", "grants")
    assert not owner.table_exists("ns.new")


def test_declarations_that_are_no_grants_are_refused() -> None:
    for wrong in ({"analyst": "everything"}, {"analyst": []}, {"": "read"}, {"a": [1]}, ["analyst"], "read"):
        with pytest.raises(DeclarationError) as caught:
            Table("ns.t", column("id", "long"), grants=wrong)  # type: ignore[arg-type]
        assert caught.value.option == "grants"


def test_grants_without_manage_say_what_is_missing(guarded: Guarded) -> None:
    token = guarded.token("rita")
    guarded.grant("read", table("t"), "rita")
    reader = FrazilCatalog("lake", uri=guarded.server.uri, token=token)
    with pytest.raises(AccessError) as caught:
        reader.list_grants("ns.t")
    assert caught.value.problem == "403"
    reader.close()


def test_drift_shows_grants_that_were_changed_by_hand(guarded: Guarded, owner: FrazilCatalog) -> None:
    items = declared("items", analyst="read")
    list(apply_steps(plan_all([items], owner), owner))
    owner.change_grants("ns.items", grant=[("etl", "write")], revoke=[("analyst", "read")])
    changes = open_grants([items], owner).drift(items, exists=True)
    assert [str(change) for change in changes] == ["- grant read to analyst", "+ grant write to etl"]


def test_a_catalog_without_authentication_leaves_grants_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'from frazil import Table, column\nt = Table("ns.t", column("id", "long"), grants={"analyst": "read"})\n'
    (tmp_path / "lakehouse.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with running_catalog(tmp_path / "lake") as server:
        monkeypatch.setenv("FRAZIL_CATALOG__URI", server.uri)
        for command in ("plan", "apply", "drift"):
            result = CliRunner().invoke(cli, [command])
            assert result.exit_code == 0, result.output
            if command != "apply":
                assert "grants of ns.t are left out: the catalog has authentication off" in result.stderr
            assert "grant read" not in result.stdout
