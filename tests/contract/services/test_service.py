"""What the base class promises for every server, tried on a small real one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from frazil import processes
from frazil.errors import PortInUse, ServiceDied, ServiceNotReady
from tests.kit.toy import Toy

MakeToy = Callable[..., Toy]


def test_a_started_server_is_ready_and_a_second_start_leaves_it_alone(make_toy: MakeToy) -> None:
    toy = make_toy()
    assert toy.start() is True
    first = toy.status()
    assert toy.start() is False
    assert (first.state, toy.status().pid, first.version, first.endpoint) == ("ready", first.pid, "1.0", toy.endpoint)
    assert first.memory_bytes is not None
    assert first.memory_bytes > 1_000_000


def test_stop_leaves_no_process_and_says_whether_there_was_one(make_toy: MakeToy) -> None:
    toy = make_toy()
    toy.start()
    assert [toy.stop(), toy.stop()] == [True, False]
    assert processes.marked(toy.folder) == []
    assert toy.status().state == "stopped"


def test_a_server_that_ignores_the_polite_signal_is_killed(make_toy: MakeToy) -> None:
    toy = make_toy(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + Toy.script.replace("signal.signal(signal.SIGTERM", "(lambda *_: 0)(1")
    )
    toy.start()
    toy.stop()
    assert processes.marked(toy.folder) == []


def test_children_of_the_server_go_with_it(make_toy: MakeToy) -> None:
    toy = make_toy("import subprocess; subprocess.Popen(['sleep', '300'], start_new_session=True)\n" + Toy.script)
    toy.start()
    assert len(processes.marked(toy.folder)) == 2
    toy.stop()
    assert processes.marked(toy.folder) == []


def test_a_taken_port_names_its_owner_and_another_port(make_toy: MakeToy) -> None:
    toy = make_toy()
    with socket.create_server(("127.0.0.1", toy.port)), pytest.raises(PortInUse) as caught:
        toy.start()
    assert f"kafka: port {toy.port} is in use by" in caught.value.message
    assert f"(pid {os.getpid()})" in caught.value.message
    assert "--set stack.ports.kafka=" in str(caught.value.hint)


def test_a_server_that_dies_at_start_shows_the_end_of_its_log(make_toy: MakeToy) -> None:
    toy = make_toy("print('reading settings', flush=True); raise SystemExit('no such option: --frob')")
    with pytest.raises(ServiceDied) as caught:
        toy.start()
    assert "kafka: the server ended while starting" in caught.value.message
    assert caught.value.log_tail.splitlines() == ["reading settings", "no such option: --frob"]
    assert "frazil logs kafka" in str(caught.value.hint)
    assert toy.status().state == "failed"


def test_the_log_shown_is_that_of_the_last_start_only(make_toy: MakeToy) -> None:
    for word in ("first", "second"):
        with pytest.raises(ServiceDied) as caught:
            make_toy(f"raise SystemExit('the {word} reason')").start()
    assert caught.value.log_tail == "the second reason"


def test_a_server_that_is_not_ready_in_time_is_stopped_and_reported(make_toy: MakeToy) -> None:
    toy = make_toy("import time; print('loading', flush=True); time.sleep(300)", ready_seconds=0.5)
    toy.ready = lambda: not processes.wait_until(lambda: toy.log_tail() == "loading", 60)  # type: ignore[method-assign]
    with pytest.raises(ServiceNotReady) as caught:
        toy.start()
    assert "kafka: not ready after 0.5 s" in caught.value.message
    assert caught.value.log_tail == "loading"
    assert processes.marked(toy.folder) == []


def test_a_killed_server_shows_as_failed_and_starts_again(make_toy: MakeToy) -> None:
    toy = make_toy()
    toy.start()
    os.kill(toy.state()["pid"], signal.SIGKILL)
    assert processes.wait_until(lambda: toy.status().state == "failed", 60)
    assert toy.start() is True
    assert toy.status().state == "ready"


def test_a_pid_that_now_belongs_to_somebody_else_is_neither_taken_for_the_server_nor_killed(make_toy: MakeToy) -> None:
    toy = make_toy()
    with subprocess.Popen(["sleep", "300"]) as stranger:
        toy.folder.mkdir(parents=True)
        toy.state_file.write_text(json.dumps({"pid": stranger.pid, "started": "another time"}))
        assert toy.status().state == "failed"
        assert toy.stop() is False
        assert stranger.poll() is None
        stranger.kill()


def test_a_server_whose_pid_was_never_written_down_is_found_and_replaced(make_toy: MakeToy) -> None:
    toy = make_toy()
    toy.start()
    lost = toy.state()["pid"]
    toy.state_file.unlink()  # as if the parent was killed between the start and the note
    assert toy.status().pid == lost
    assert toy.start() is True
    assert [process.pid for process in processes.marked(toy.folder)] == [toy.state()["pid"]] != [lost]


def test_two_starts_at_once_start_one_server(make_toy: MakeToy) -> None:
    toys = [make_toy(), make_toy()]
    threads = [threading.Thread(target=toy.start) for toy in toys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(processes.marked(toys[0].folder)) == 1


def test_changed_settings_restart_the_server(make_toy: MakeToy) -> None:
    toy = make_toy()
    toy.start()
    before = toy.state()["pid"]
    changed = make_toy(Toy.script + "\n# another configuration")
    assert changed.start() is True
    assert changed.state()["pid"] != before
    assert len(processes.marked(toy.folder)) == 1


def test_extra_ports_are_remembered_and_replaced_when_taken(make_toy: MakeToy) -> None:
    toy = make_toy()
    toy.start()
    side = toy.extra_port("side")
    toy.stop()
    toy.start()
    assert toy.extra_port("side") == side
    toy.stop()
    with socket.create_server(("127.0.0.1", side)):
        toy.start()
    assert toy.extra_port("side") != side


def test_a_server_that_died_since_its_internal_port_was_taken_gets_another(make_toy: MakeToy) -> None:
    toy = make_toy()
    with ExitStack() as taken:

        def report(step: str) -> None:  # at the worst moment: the port is chosen, the server does not listen yet
            if step == "starting" and not steps.count(step):
                taken.enter_context(socket.create_server(("127.0.0.1", toy.extra_port("side"))))
                toy.script = "raise SystemExit('address in use')"
            else:
                toy.script = Toy.script
            steps.append(step)

        steps: list[str] = []
        assert toy.start(report) is True
    assert steps.count("starting") == 2


def test_a_server_outlives_its_killed_parent_and_is_adopted(make_toy: MakeToy) -> None:
    toy = make_toy()
    arguments = ["-m", "tests.kit.toy", str(toy.settings.stack.folder), str(toy.port)]
    with subprocess.Popen([sys.executable, *arguments], cwd=Path(__file__).parents[3]) as parent:
        assert processes.wait_until(lambda: "pid" in toy.state() and toy.status().state == "ready", 60)
        parent.kill()
    pid = toy.status().pid
    time.sleep(0.1)
    assert toy.start() is False
    assert toy.status().pid == pid
