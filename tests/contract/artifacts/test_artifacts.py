"""Jars by coordinates: from the public repository, and from one on loopback that breaks in every way."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from frazil.artifacts.jars import jars_folder, resolve_jars, unpack_server
from frazil.artifacts.progress import Progress, show_progress, silent, watch_folder
from frazil.errors import ConfigError, DownloadError
from frazil.processes import wait_until
from frazil.services import ports
from tests.kit.maven import Repository, write_settings
from tests.kit.raising import raises

SMALL = "org.slf4j:slf4j-api:2.0.16"

pytestmark = pytest.mark.usefixtures("cache")


def names(files: list[Path]) -> list[str]:
    return [file.name for file in files]


# --- what is resolved ------------------------------------------------------------------------------------------------


def test_a_public_jar_is_fetched_and_the_second_call_needs_neither_network_nor_jvm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = resolve_jars([SMALL], on_progress=silent)
    assert [(file.name, file.stat().st_size) for file in first] == [("slf4j-api-2.0.16.jar", 69435)]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xnonsense")  # no JVM would start
    assert resolve_jars([SMALL], on_progress=silent) == first


def test_transitive_resolution_brings_what_a_jar_depends_on(repository: Repository) -> None:
    repository.publish("org.x:base:1", b"base")
    repository.publish("org.x:app:2", b"app", needs="org.x:base:1")
    assert names(resolve_jars(["org.x:app:2"], on_progress=silent)) == ["app-2.jar"]
    assert names(resolve_jars(["org.x:app:2"], transitive=True, on_progress=silent)) == ["app-2.jar", "base-1.jar"]


def test_a_classifier_names_another_artifact_of_the_module_and_keeps_its_dependencies(repository: Repository) -> None:
    repository.publish("org.x:base:1", b"base")
    repository.publish("org.x:app:2:tests", b"tests", needs="org.x:base:1")
    repository.publish("org.x:app:2", b"app", needs="org.x:base:1")
    assert names(resolve_jars(["org.x:app:2:tests"], on_progress=silent)) == ["app-2-tests.jar"]
    both = resolve_jars(["org.x:app:2", "org.x:app:2:tests"], transitive=True, on_progress=silent)
    assert {file.name: file.read_bytes() for file in both} == {
        "app-2.jar": b"app",
        "app-2-tests.jar": b"tests",
        "base-1.jar": b"base",
    }


def test_files_of_one_name_from_two_groups_are_both_kept(repository: Repository) -> None:
    repository.publish("org.x:util:1", b"x")
    repository.publish("org.y:util:1", b"y")
    files = resolve_jars(["org.x:util:1", "org.y:util:1"], transitive=True, on_progress=silent)
    assert sorted(file.read_bytes() for file in files) == [b"x", b"y"]


def test_sets_that_share_a_jar_share_its_download_and_their_order_does_not_matter(repository: Repository) -> None:
    for name in ("a", "b"):
        repository.publish(f"org.x:{name}:1")
    together = resolve_jars(["org.x:a:1", "org.x:b:1"], on_progress=silent)
    assert [
        *resolve_jars(["org.x:b:1"], on_progress=silent),
        *resolve_jars(["org.x:a:1"], on_progress=silent),
    ] == together[::-1]
    assert repository.asked_for("a-1.jar") == repository.asked_for("b-1.jar") == 1
    assert jars_folder(["org.x:a:1", "org.x:b:1"]) == jars_folder(["org.x:b:1", "org.x:a:1"])


@pytest.mark.parametrize("text", ["", "org.x:a", "org.x:a:1:b:c", "org.x:../a:1", 'org.x:a:1"/>'])
def test_what_is_not_a_coordinate_is_refused(text: str) -> None:
    with raises(ConfigError, got=text):
        resolve_jars([text])


# --- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_missing_artifact_is_named_with_what_to_check(repository: Repository) -> None:
    with pytest.raises(DownloadError) as caught:
        resolve_jars(["org.x:nothing:9"], on_progress=silent)
    assert caught.value.artifact == "org.x:nothing:9"
    assert str(caught.value).startswith(
        "could not download org.x:nothing:9: the repository does not have it\n  check the group, name"
    )


def test_without_a_network_and_with_an_empty_cache_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy where nothing listens: Java reaches nothing, on any machine.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={ports.free_port()}")
    with pytest.raises(DownloadError) as caught:
        resolve_jars([SMALL], on_progress=silent)
    assert (
        "could not download org.slf4j:slf4j-api:2.0.16: no network (java.net.ConnectException: Connection refused"
        in str(caught.value)
    )
    assert "what is in the cache works offline" in str(caught.value.hint)


def test_a_host_that_does_not_exist_is_a_matter_of_the_network(tmp_path: Path) -> None:
    settings = write_settings(tmp_path / "settings.xml", "http://repository.invalid/")
    with raises(DownloadError, reason=re.compile(r"no network \(Host repository.invalid not found\)")):
        resolve_jars([SMALL], ivy_settings=settings, on_progress=silent)


def test_a_file_that_does_not_match_its_checksum_is_refused(repository: Repository, cache: Path) -> None:
    repository.publish("org.x:a:1", b"right")
    next(repository.folder.rglob("a-1.jar")).write_bytes(b"wrong")
    with raises(DownloadError, artifact="org.x:a:1"):
        resolve_jars(["org.x:a:1"], on_progress=silent)
    assert not jars_folder(["org.x:a:1"]).exists()


def test_settings_that_are_missing_or_no_xml_are_named(tmp_path: Path) -> None:
    with raises(ConfigError, path=re.compile(r"does-not-exist\.xml$")):
        resolve_jars([SMALL], ivy_settings=tmp_path / "does-not-exist.xml")
    (tmp_path / "broken.xml").write_text("<ivysettings>")
    with raises(DownloadError, reason=re.compile("the Ivy settings are not valid")):
        resolve_jars([SMALL], ivy_settings=tmp_path / "broken.xml", on_progress=silent)


def test_a_cache_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("FRAZIL_CACHE", str(tmp_path / "file"))
    with raises(DownloadError, path=f"{tmp_path}/file/jars", hint=re.compile("FRAZIL_CACHE")):
        resolve_jars([SMALL], on_progress=silent)


FETCH = (
    "import sys; from frazil.artifacts.jars import resolve_jars; "
    "print(resolve_jars(sys.argv[1:])[0].read_bytes().hex())"
)


def test_a_full_disk_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.publish("org.x:large:1", os.urandom(4_000_000))
    disk = tmp_path / "disk"
    disk.mkdir()
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = f'mount -t tmpfs -o size=1m tmpfs {disk} && export FRAZIL_CACHE={disk} && exec "$@"'
    command = [*namespace, "sh", "-c", script, "-", sys.executable, "-c", FETCH, "org.x:large:1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "could not download org.x:large:1: the disk is full" in done.stderr
    assert "set FRAZIL_CACHE to a folder on another disk" in done.stderr


# --- whole or not at all ---------------------------------------------------------------------------------------------


def test_a_download_that_was_killed_does_not_count_and_the_next_one_completes_it(repository: Repository) -> None:
    repository.publish("org.x:large:1", b"ice" * 400_000)
    repository.stall.set()
    first = subprocess.Popen(
        [sys.executable, "-c", FETCH, "org.x:large:1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert repository.stalled.wait(120)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert not jars_folder(["org.x:large:1"]).exists()
    repository.stall.clear()
    # The Java that the killed process had started may still run: it holds the lock, so two never write to one file.
    [file] = resolve_jars(["org.x:large:1"], on_progress=silent)
    assert file.read_bytes() == b"ice" * 400_000


def test_two_processes_that_want_one_jar_download_it_once(repository: Repository, tmp_path: Path) -> None:
    repository.publish("org.x:large:1", b"ice")
    repository.stall.set()
    command, said = [sys.executable, "-c", FETCH, "org.x:large:1"], tmp_path / "said"
    with said.open("a") as errors:
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) for _ in range(2)]
    assert repository.stalled.wait(120)
    assert wait_until(lambda: "which is being fetched already" in said.read_text(), 120)
    repository.stall.clear()
    assert [process.communicate(timeout=240)[0] for process in started] == [b"ice".hex() + "\n"] * 2
    assert repository.asked_for("large-1.jar") == 1
    assert said.read_text().count("which is being fetched already") == 1


def test_a_file_that_was_damaged_or_removed_in_the_cache_is_fetched_again(repository: Repository) -> None:
    repository.publish("org.x:a:1", b"whole")
    [file] = resolve_jars(["org.x:a:1"], on_progress=silent)
    file.write_bytes(b"half")
    assert resolve_jars(["org.x:a:1"], on_progress=silent)[0].read_bytes() == b"whole"
    file.unlink()
    assert resolve_jars(["org.x:a:1"], on_progress=silent)[0].read_bytes() == b"whole"


def test_after_a_failure_only_what_is_missing_is_fetched(repository: Repository) -> None:
    repository.publish("org.x:base:1", b"base")
    repository.publish("org.x:app:1", b"app", needs="org.x:base:1")
    missing = next(repository.folder.rglob("base-1.jar"))
    missing.rename(missing.with_suffix(".away"))
    with raises(DownloadError, artifact="org.x:base:1"):
        resolve_jars(["org.x:app:1"], transitive=True, on_progress=silent)
    missing.with_suffix(".away").rename(missing)
    assert names(resolve_jars(["org.x:app:1"], transitive=True, on_progress=silent)) == ["app-1.jar", "base-1.jar"]
    assert repository.asked_for("app-1.jar") == 1


# --- archives --------------------------------------------------------------------------------------------------------


def archive() -> bytes:
    """A server with a jar that two plugins share by a hard link into a nested folder, as Trino's does."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in {
            "s-1/lib/core.jar": b"core",
            "s-1/plugin/big/hdfs/shared.jar": b"shared",
            "s-1/plugin/big/own.jar": b"own",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("s-1/plugin/small/shared.jar")
        link.type, link.linkname = tarfile.LNKTYPE, "s-1/plugin/big/hdfs/shared.jar"
        tar.addfile(link)
    return buffer.getvalue()


def test_an_archive_is_unpacked_once_without_the_parts_that_are_not_needed(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.publish("org.x:s:1", archive(), ext="tar.gz")
    folder = unpack_server("org.x:s:1@tar.gz", keep=["lib/", "plugin/small/"], on_progress=silent)
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("[!.]*") if file.is_file()}
    assert files == {"lib/core.jar": b"core", "plugin/small/shared.jar": b"shared"}
    assert [path.name for path in (folder / "plugin").iterdir()] == ["small"]
    assert not jars_folder(["org.x:s:1@tar.gz"]).exists()  # the archive itself is not kept
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xnonsense")
    assert unpack_server("org.x:s:1@tar.gz", keep=["lib/", "plugin/small/"], on_progress=silent) == folder


def test_an_archive_that_is_none_is_an_error_that_names_it(repository: Repository, cache: Path) -> None:
    repository.publish("org.x:s:1", b"no archive", ext="tar.gz")
    with raises(DownloadError, artifact="org.x:s:1@tar.gz"):
        unpack_server("org.x:s:1@tar.gz", keep=["lib/"], on_progress=silent)
    assert [path for path in (cache / "servers").iterdir() if not path.name.startswith(".")] == []


# --- progress --------------------------------------------------------------------------------------------------------


def test_progress_counts_the_bytes_of_a_download_and_tells_its_end(repository: Repository) -> None:
    repository.publish("org.x:large:1", b"ice" * 400_000)
    seen: list[Progress] = []
    resolve_jars(["org.x:large:1"], total_bytes=1_200_000, on_progress=seen.append)
    assert {(event.what, event.total_bytes) for event in seen} == {("fetching large 1", 1_200_000)}
    assert [event.state for event in seen] == ["running"] * (len(seen) - 1) + ["done"]
    assert seen[-1].got_bytes > 1_200_000


def test_plain_lines_are_few_and_a_failure_is_reported(tmp_path: Path) -> None:
    lines = io.StringIO()
    show = show_progress(lines)
    for tenth in range(100):
        show(Progress("fetching x", tenth * 100_000, None, tenth / 10))
    assert lines.getvalue().splitlines() == ["fetching x: 1.0 MB, 1 s", "fetching x: 6.0 MB, 6 s"]
    with pytest.raises(KeyboardInterrupt), watch_folder(tmp_path, "fetching y", show):
        raise KeyboardInterrupt
    assert lines.getvalue().splitlines()[-1] == "fetching y: failed after 0 s"


def test_a_terminal_gets_a_bar_with_bytes() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    show = show_progress(terminal)
    for state, megabytes in (("running", 5), ("done", 10)):
        show(Progress("fetching x", megabytes * 1_000_000, 10_000_000, 1.0, state))
    assert "fetching x" in terminal.getvalue()
    assert "10.0/10.0 MB" in terminal.getvalue()


def test_several_downloads_at_once_have_a_bar_each(repository: Repository) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    coordinates = [f"org.x:jar{number}:1" for number in range(6)]
    for coordinate in coordinates:
        repository.publish(coordinate, coordinate.encode())
    terminal = Terminal()
    files = resolve_jars(coordinates, on_progress=show_progress(terminal))
    assert [file.read_text() for file in files] == coordinates
    assert all(f"fetching jar{number} 1" in terminal.getvalue() for number in range(6))


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    from frazil.artifacts.jars import cache_folder

    assert cache_folder() == cache
    monkeypatch.delenv("FRAZIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/frazil")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "frazil"
