"""Ports: free ones, taken ones and their owners."""

from __future__ import annotations

import os
import socket

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


def test_http_status_is_none_where_nothing_speaks_http() -> None:
    assert ports.http_status(ports.free_port(), "/") is None
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts, but never answers
        assert ports.http_status(server.getsockname()[1], "/", seconds=0.2) is None
