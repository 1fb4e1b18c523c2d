"""Ports: free ones, taken ones and their owners."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frazil.services import ports


def test_a_listening_socket_takes_the_port_and_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        assert f"(pid {os.getpid()})" in str(ports.owner(port))
    assert ports.is_free(port)
    assert ports.owner(port) is None


def test_a_server_on_all_addresses_takes_the_port_on_loopback_too() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_a_free_port_avoids_the_given_ports_and_keeps_its_offset_free() -> None:
    avoid = [port for port in range(10_000, 32_000) if port % 2]
    port = ports.free_port(avoid=avoid, offset=10_000)
    assert port % 2 == 0
    assert ports.is_free(port)
    assert ports.is_free(port + 10_000)
    assert port + 10_000 < 32_768  # from there on, outgoing connections come and go


def test_a_chosen_port_is_chosen_by_no_other_process_before_its_server_listens() -> None:
    nearly_all = f"avoid = set(range(10_000, 32_000)) - set(range({(low := ports.free_port())}, {low} + 40))"
    program = f"from frazil.services import ports\n{nearly_all}\nfor _ in range(4): print(ports.free_port(avoid=avoid))"
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    chosen = [int(line) for process in running for line in process.communicate()[0].split()]
    assert len(chosen) == 16
    assert len(set(chosen)) == 16


@pytest.fixture
def reservations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of an empty cache folder that lists chosen ports."""
    monkeypatch.setattr(ports, "cache_folder", lambda: tmp_path)
    return tmp_path / "ports"


def test_a_reservation_ends_by_itself(reservations: Path) -> None:
    port = ports.free_port()
    avoid = set(range(10_000, 32_000)) - {port}
    reservations.write_text(f"{port} {time.time() - ports.RESERVED_SECONDS - 1}\n")
    assert ports.free_port(avoid=avoid) == port
    assert len(reservations.read_text().splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"12", b"x y\n12 3 4\n", b"12345 nan\n", b"\xff\xfe\n"])
def test_a_damaged_list_of_reservations_does_not_stop_a_choice(reservations: Path, content: bytes) -> None:
    reservations.write_bytes(content)
    port = ports.free_port()
    assert f"{port} " in reservations.read_text()


def test_a_cache_folder_that_cannot_be_written_to_does_not_stop_a_choice(reservations: Path) -> None:
    reservations.mkdir()
    assert ports.is_free(ports.free_port())


def test_http_status_is_none_where_nothing_speaks_http() -> None:
    assert ports.http_status(ports.free_port(), "/") is None
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, but never answers
        assert ports.http_status(server.getsockname()[1], "/", seconds=0.2) is None
