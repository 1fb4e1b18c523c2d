"""The object store on its own: keys, bucket, restarts, a full disk."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from frazil.config import load_settings
from frazil.errors import ServiceDied
from frazil.processes import wait_until
from frazil.services import ports
from frazil.services.object_store import ObjectStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    flags = {"stack.folder": str(tmp_path), "stack.ports.object_store": str(ports.free_port())}
    service = ObjectStore(load_settings(flags=flags, environ={}, folder=tmp_path))
    yield service
    service.stop()


def s3(service: ObjectStore, secret: str | None = None):
    import boto3

    secret = secret or service.settings.stack.secret_access_key.get_secret_value()
    keys = {"aws_access_key_id": "frazil", "aws_secret_access_key": secret, "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=service.endpoint, **keys)


def test_objects_survive_a_restart_and_wrong_keys_are_refused(store: ObjectStore) -> None:
    from botocore.exceptions import ClientError

    store.start()
    s3(store).put_object(Bucket="lakehouse", Key="a/b.txt", Body=b"ice")
    store.stop()
    store.start()
    assert s3(store).get_object(Bucket="lakehouse", Key="a/b.txt")["Body"].read() == b"ice"
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        s3(store, secret="wrong").list_objects_v2(Bucket="lakehouse")


@pytest.mark.parametrize("stays", [True, False], ids=["that stays", "that is gone at once"])
def test_a_process_that_took_an_internal_port_first_does_not_stop_the_start(store: ObjectStore, *, stays: bool) -> None:
    taken: list[socket.socket] = []

    def report(step: str) -> None:
        if step == "starting" and not taken:  # the ports are chosen, and no server listens yet
            taken.append(socket.create_server(("127.0.0.1", store.extra_port("admin.port"))))
        elif step == "waiting until ready" and not stays:
            assert wait_until(lambda: "Port allocation failed" in store.log_tail() or not store.process(), 60)
            taken[0].close()

    try:
        assert store.start(report) is True
    finally:
        taken[0].close()


def test_no_port_serves_an_object_without_keys(store: ObjectStore) -> None:
    """The filer would serve every path, and the others list and write: each port is asked over plain HTTP."""
    import requests

    store.start()
    s3(store).put_object(Bucket="lakehouse", Key="a/b.txt", Body=b"iceberg")
    for port in {store.port, *store.state()["ports"].values()}:
        for path in ("/buckets/lakehouse/a/b.txt", "/lakehouse/a/b.txt", "/buckets/", "/"):
            try:
                answer = requests.get(f"http://127.0.0.1:{port}{path}", timeout=10)
            except requests.RequestException:
                continue
            assert "iceberg" not in answer.text
            assert not ("b.txt" in answer.text and answer.ok)


def test_the_volume_server_takes_no_write_that_is_not_signed(store: ObjectStore) -> None:
    import requests

    store.start()
    s3(store).put_object(Bucket="lakehouse", Key="a/b.txt", Body=b"iceberg")
    place = f"http://127.0.0.1:{store.extra_port('volume.port')}/1,01637037d6"
    assert requests.post(place, files={"file": b"other"}, timeout=10).status_code == 401
    assert requests.delete(place, timeout=10).status_code == 401


def test_every_port_is_on_loopback(store: ObjectStore) -> None:
    import psutil

    store.start()
    wanted = {store.port, *store.state()["ports"].values()}
    process = psutil.Process(store.state()["pid"])

    def listening() -> list[tuple[str, int]]:
        return [(c.laddr.ip, c.laddr.port) for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]

    # The admin server comes up after the store can be used.
    assert wait_until(lambda: {port for _, port in listening()} >= wanted, 120)
    assert {ip for ip, _ in listening()} == {"127.0.0.1"}


def test_stop_leaves_no_socket_in_the_temporary_folder(store: ObjectStore) -> None:
    before = set(Path("/tmp").glob("seaweedfs-*.sock"))
    store.start()
    own = [
        path
        for path in set(Path("/tmp").glob("seaweedfs-*.sock")) - before
        if str(store.extra_port("master.port.grpc")) in path.name
    ]
    assert len(own) == 1
    store.stop()
    assert not own[0].exists()


def test_a_damaged_data_folder_shows_the_end_of_the_log(store: ObjectStore) -> None:
    store.data.mkdir(parents=True)
    (store.data / "filerldb2").write_text("a file where the folder of the file names should be")
    with pytest.raises(ServiceDied) as caught:
        store.start()
    assert "object-store: the server ended while starting" in caught.value.message
    assert "filerldb2" in caught.value.log_tail
    assert "frazil down --purge" in str(caught.value.hint)


# Runs in a mount namespace of its own, so that the small disk vanishes with it.
FULL_DISK = """
import sys
from frazil.config import load_settings
from frazil.errors import DiskFull
from frazil.services.object_store import ObjectStore
from frazil.processes import wait_until
ObjectStore.min_free_bytes = int(sys.argv[3])
service = ObjectStore(load_settings(flags={"stack.folder": sys.argv[1], "stack.ports.object_store": sys.argv[2]}))
try:
    service.start()
except DiskFull as exc:
    print(exc)
service.stop()
"""


def start_on_disk_of(size: str, folder: Path, *, min_free_bytes: int) -> str:
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = f'mount -t tmpfs -o size={size} tmpfs "$1" && shift && exec "$@"'
    program = [sys.executable, "-c", FULL_DISK, str(folder), str(ports.free_port()), str(min_free_bytes)]
    done = subprocess.run(
        [*namespace, "sh", "-c", script, "-", str(folder), *program], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_a_disk_that_fills_up_during_the_start_is_reported_as_full(tmp_path: Path) -> None:
    said = start_on_disk_of("64k", tmp_path, min_free_bytes=0)
    assert f"object-store: no room on the disk of {tmp_path}/object-store" in said
    assert "the end of" in said
    assert "stack.folder=" in said


def test_a_disk_with_too_little_room_is_refused_before_anything_starts(tmp_path: Path) -> None:
    said = start_on_disk_of("8m", tmp_path, min_free_bytes=ObjectStore.min_free_bytes)
    assert "8 MB free, 128 MB needed" in said
    assert "the end of" not in said
