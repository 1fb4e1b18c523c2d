"""A project's code in the console: it runs in a process of its own, and callers see what they may."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from frazil.catalog.embedded import running_catalog
from frazil.console.project import FILE_NAME, ChildFailed, Projects, ask_child, fingerprint
from frazil.console.project.answer import _settings as settings_of
from frazil.console.project.child import STORE_KEYS
from frazil.project import FILE_NAME as PROJECT_FILE
from tests.console.conftest import OpenPage
from tests.kit.access import Guarded, guarded_catalog, namespace, table
from tests.kit.project_lake import MARKUP, copy_project

NOTES_ITS_PROCESS = """
import os
with open({path!r}, "a") as noted:
    noted.write(f"{{os.getpid()}}\\n")
print("a line of the project")
"""
API = "/console/api/default/pipelines"


def client_stays() -> None:
    """A client that stays."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path / "sales", more=NOTES_ITS_PROCESS.format(path=str(tmp_path / "pids")))


@pytest.fixture
def guarded(tmp_path: Path, project: Path) -> Iterator[Guarded]:
    """A catalog with authentication, a project, and two of its tables."""
    database = f"sqlite:///{tmp_path / 'catalog.db'}"
    with guarded_catalog(tmp_path, database, routes_of=["frazil.console"], project=project) as guarded:
        guarded.admin.create("sales", "lakehouse")
        guarded.admin.create("orders", "silver")
        guarded.admin.create("other", "gold")
        yield guarded


def test_code_runs_in_another_process_once_for_each_version_of_its_files(project: Path) -> None:
    pids, projects = project.parent / "pids", Projects()
    assert projects.known(project) is None
    described = projects.describe(project, client_stays)
    assert [node["name"] for node in described.nodes][-1] == "gold.revenue"
    assert projects.describe(project, client_stays) is described
    (pid,) = pids.read_text().splitlines()
    assert int(pid) != os.getpid()
    (project / "models" / "gold" / "revenue.sql").write_text("SELECT day FROM silver.orders")
    assert projects.known(project) is None
    again = projects.describe(project, client_stays)
    assert [column["name"] for column in again.nodes[-1]["columns"]] == ["day"]
    assert len(pids.read_text().splitlines()) == 2


def test_errors_of_code_are_the_answer(project: Path) -> None:
    (project / FILE_NAME).write_text(f"raise ValueError({MARKUP!r})")
    described = Projects().describe(project, client_stays)
    assert described.nodes == []
    assert described.error is not None
    assert f"lakehouse.py:1 could not be loaded: ValueError: {MARKUP}" in described.error


@pytest.mark.parametrize(
    ("code", "said"),
    [("import os; os._exit(7)", "code 7"), ("import time\nwhile True: time.sleep(60)", "longer than 1 second")],
)
def test_code_that_ends_its_process_or_does_not_end_is_an_error(project: Path, code: str, said: str) -> None:
    (project / FILE_NAME).write_text(code)
    with pytest.raises(ChildFailed, match=said):
        ask_child(project, {"ask": "describe"}, check=client_stays, seconds=1.0 if "while" in code else 60.0)


def test_files_that_hold_no_code_are_not_looked_at(project: Path) -> None:
    before = fingerprint(project)
    for name in (".frazil/x.py", "__pycache__/x.py", "landing/a.csv"):
        file = project / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    assert fingerprint(project) == before
    assert PROJECT_FILE == FILE_NAME


def test_a_project_that_cannot_be_loaded_shows_its_error_as_text(tmp_path: Path, watch: OpenPage) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / FILE_NAME).write_text(f"raise ValueError({MARKUP!r})")
    with running_catalog(tmp_path, routes_of=["frazil.console"], project=tmp_path / "p") as server:
        page = watch(server.uri).open("pipelines/default")
        page.set_default_timeout(120_000)
        page.get_by_text("The project cannot be loaded").wait_for()
        assert MARKUP in str(page.locator(".notice pre").text_content())
        assert page.evaluate("window.hit") is None


def test_callers_see_the_part_of_a_project_that_they_may(guarded: Guarded) -> None:
    callers = {
        "everything": guarded.user("owner", ("manage", namespace("lakehouse")), ("manage", namespace("silver"))),
        "names": guarded.user("finder", ("discover", table("orders", "silver"))),
        "contents": guarded.user("reader", ("read", table("orders", "silver"))),
        "all of one": guarded.user("creator", ("create", namespace("gold"))),
    }
    seen = {}
    for name, caller in callers.items():
        answer = caller.raw("GET", f"{API}?declared=wait").body
        seen[name] = sorted(f"{box['kind']} {box['label']} {len(box.get('columns') or [])}" for box in answer["boxes"])
    assert seen == {
        "everything": [
            "model silver.customers 3",
            "model silver.orders 5",
            "pipeline daily_customers 0",
            "pipeline daily_sales 0",
            "source landing/*.csv 0",
            "source landing/customers/*.csv 0",
            "table lakehouse.customers 4",
            "table lakehouse.sales 2",
        ],
        "names": ["model silver.orders 0"],
        "contents": ["model silver.orders 5"],
        "all of one": ["model gold.revenue 4"],
    }
    (orders,) = callers["contents"].raw("GET", f"{API}?declared=wait").body["boxes"]
    assert [column["expression"] for column in orders["columns"]] == [None] * 5, "they are made from lakehouse.sales"
    assert callers["contents"].raw("GET", f"{API}/states").body == {"states": {}, "error": None}


def test_errors_of_code_are_for_who_manages_the_warehouse(guarded: Guarded, project: Path) -> None:
    (project / FILE_NAME).write_text("raise ValueError('a secret')")
    reader = guarded.user("reader", ("read", namespace("silver")))
    answers = [client.raw("GET", f"{API}?declared=wait").body["project"] for client in (guarded.admin, reader)]
    assert [answer["status"] for answer in answers] == ["failed", "failed"]
    assert ["a secret" in answer["error"] for answer in answers] == [True, False]


def test_runs_need_the_right_to_read_them(guarded: Guarded) -> None:
    path = "/console/api/default/namespaces/lakehouse/tables/sales/runs"
    reader = guarded.user("reader", ("read", table("sales", "lakehouse")))
    assert reader.raw("GET", path).body == {"runs": []}
    guarded.admin.create("sales__runs", "lakehouse")
    guarded.grant("discover", table("sales__runs", "lakehouse"), "reader")
    assert reader.raw("GET", path).status == 403
    guarded.grant("read", table("sales__runs", "lakehouse"), "reader")
    assert reader.raw("GET", path).body == {"runs": []}, "it is empty"


def test_states_are_asked_of_this_server_whatever_the_host_header_says(guarded: Guarded) -> None:
    """A process that listens on another port of the loopback interface would get the token, and could answer."""
    token = {"authorization": str(guarded.admin.session.headers["Authorization"])}
    asked = [requests.get(f"{guarded.server.uri}{API}/states", headers=token, timeout=120).json()]
    with socket.create_server(("127.0.0.1", 0)) as other:
        headers = {**token, "host": f"localhost:{other.getsockname()[1]}"}
        asked.append(requests.get(f"{guarded.server.uri}{API}/states", headers=headers, timeout=120).json())
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert asked[0] == asked[1]
    assert "the columns are id int64, data string" in asked[0]["error"]  # those of the table in this catalog


# of the operator's own connection to a catalog
CONNECTION = """
[s3]
secret_access_key = "${{ENV:AWS_SECRET_ACCESS_KEY}}"

[catalog]
token = "{token}"

[catalog.properties]
token = "{token}"
credential = "{credential}"
"oauth2-server-uri" = "{uri}/oauth/token"
"header.Authorization" = "Bearer {token}"
"s3.endpoint" = "http://127.0.0.1:1"
"""
ELSEWHERE = """
uri = "http://127.0.0.1:1"
warehouse = "cold"
"rest.sigv4-enabled" = "true"
auth = "basic"
"""
NOTES_WHAT_IT_GETS = """
import ctypes, json, os, resource
limits = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[0]
with open({path!r}, "w") as noted:
    json.dump([dict(os.environ), limits], noted)
print({token!r}, "frz_0123456789abcdef_" + 43 * "x")
print("password: hunter2" + 9_000 * "x" + "hunter2")
raise ValueError("frz_0123456789abcdef_" + 43 * "y")
"""


def test_a_caller_asks_with_its_own_token_whatever_the_operator_connects_with(
    guarded: Guarded, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-store")
    chief = guarded.token("chief", roles=["admin"])
    values = {"token": chief, "credential": ":".join(chief.split("_")[1:]), "uri": guarded.server.uri}
    (project / "frazil.toml").write_text(CONNECTION.format(**values))
    question = {"ask": "plan", "tables": ["lakehouse.sales"], "uri": guarded.server.uri, "warehouse": "default"}
    with pytest.raises(ChildFailed, match="refused"):  # it has no grants
        ask_child(project, question | {"token": guarded.token("guest")}, check=client_stays, seconds=60.0)
    (project / "frazil.toml").write_text(CONNECTION.format(**values) + ELSEWHERE)
    settings = settings_of(project, question | {"token": "of-a-caller"})
    assert (settings.catalog.uri, settings.catalog.warehouse) == (guarded.server.uri, "default")
    assert settings.catalog.token is not None
    assert settings.catalog.token.get_secret_value() == "of-a-caller"
    assert settings.catalog.properties == {"s3.endpoint": "http://127.0.0.1:1"}


@pytest.mark.parametrize("ask", ["states", "describe"])
def test_code_gets_no_secrets_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: str, capfd: pytest.CaptureFixture[str]
) -> None:
    noted, token = tmp_path / "noted.json", "opaque-token-of-a-caller"
    for name in ("FRAZIL_SERVER__SECRET_KEY", *STORE_KEYS):
        monkeypatch.setenv(name, f"secret-of-{name}")
    (tmp_path / FILE_NAME).write_text(NOTES_WHAT_IT_GETS.format(path=str(noted), token=token))
    with pytest.raises(ChildFailed) as failed:
        ask_child(tmp_path, {"ask": ask, "nodes": [], "token": token}, check=client_stays, seconds=60.0)
    environ, limits = json.loads(noted.read_text())
    assert "FRAZIL_SERVER__SECRET_KEY" not in environ
    kept = {f"secret-of-{name}" for name in STORE_KEYS}  # landing files may lie in the store
    assert {environ[name] for name in STORE_KEYS} == (kept if ask == "states" else {""})
    assert limits == [0, 0], "it leaves no core dump"
    printed = capfd.readouterr()
    assert "*** frz_0123456789abcdef_***" in printed.err
    assert not {text for text in (token, "x" * 43, "hunter2") if text in printed.err + printed.out}
    assert "frz_0123456789abcdef_***" in str(failed.value)


def test_pages_of_other_sites_start_no_process(guarded: Guarded, project: Path) -> None:
    headers = {**guarded.admin.session.headers, "sec-fetch-site": "cross-site"}
    for path in (f"{API}?declared=wait", f"{API}/states"):
        assert requests.get(f"{guarded.server.uri}{path}", headers=headers, timeout=60).status_code == 403
    assert not (project.parent / "pids").exists()
