"""A stack as a whole: names, ports and folders, decided without a server."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frazil.config import Settings, load_settings, stack_s3
from frazil.errors import ConfigError
from frazil.local_stack import make_secrets, read_secrets
from frazil.services import stack as stacks
from frazil.services.object_store import ObjectStore
from frazil.services.stack import SERVICES, Stack, check_name
from tests.kit.raising import raises


def with_port_zero(folder: Path) -> Settings:
    return load_settings(flags={"stack.folder": str(folder), "stack.ports.catalog": "0"}, environ={}, folder=folder)


def test_an_unknown_service_is_refused_with_the_known_names() -> None:
    with raises(ConfigError, name="redis") as caught:
        check_name("redis")
    assert all(name in str(caught.value.hint) for name in SERVICES)
    assert check_name("object_store") == "object-store"


def test_every_service_has_a_port_in_the_settings_and_its_own_name(settings: Settings) -> None:
    services = {name: Stack(settings).service(name) for name in SERVICES}
    assert [service.name for service in services.values()] == list(SERVICES)
    assert len({service.port for service in services.values()}) == len(SERVICES)


def test_every_required_service_comes_earlier_in_the_order(settings: Settings) -> None:
    order = list(SERVICES)
    for name in order:
        assert all(order.index(other) < order.index(name) for other in Stack(settings).service(name).requires)


def test_port_zero_becomes_a_free_port_that_the_folder_remembers(tmp_path: Path) -> None:
    settings = with_port_zero(tmp_path)
    assert Stack(settings).settings.stack.ports.catalog == 0
    chosen = stacks._choose_ports(settings, tmp_path, ["catalog"]).stack.ports.catalog
    assert chosen > 0
    assert Stack(settings).settings.stack.ports.catalog == chosen
    assert json.loads((tmp_path / "ports.json").read_text()) == {"catalog": chosen}


def test_two_that_choose_at_once_agree_on_the_port(tmp_path: Path) -> None:
    result: list[int] = []
    settings = with_port_zero(tmp_path)

    def choose() -> None:
        result.append(stacks._choose_ports(settings, tmp_path, ["catalog"]).stack.ports.catalog)

    threads = [threading.Thread(target=choose) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 8
    assert len(set(result)) == 1


def test_a_stack_that_never_ran_has_the_plain_services_stopped_and_nothing_to_purge(settings: Settings) -> None:
    stack = Stack(settings)
    assert [(row.service, row.state) for row in stack.status()] == [("object-store", "stopped"), ("catalog", "stopped")]
    assert stack.down(lambda _: None) == []
    assert stack.purge_paths() == []


def test_purge_takes_the_services_and_leaves_what_is_not_theirs(settings: Settings) -> None:
    stack = Stack(settings)
    for item in ("object-store/data/1.dat", "catalog/data/catalog.db", "catalog/catalog.db", "warehouse/rows.parquet"):
        (stack.folder / item).parent.mkdir(parents=True, exist_ok=True)
        (stack.folder / item).write_text("x")
    stack.purge()
    left = sorted(str(path.relative_to(stack.folder)) for path in stack.folder.rglob("*") if path.is_file())
    assert left == ["catalog/catalog.db", "warehouse/rows.parquet"]


def test_a_folder_that_cannot_be_made_is_a_clear_error(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "stack").write_text("a file where the folder should be")
    with raises(ConfigError, reason="File exists"):
        Stack(settings).up(["object-store"], lambda _: None)


def test_the_socket_of_a_deep_folder_is_short_enough_for_the_system(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name"] * 8)
    store = ObjectStore(load_settings(flags={"stack.folder": str(deep)}, environ={}, folder=tmp_path))
    assert len(str(store._socket("filer"))) < 100


def test_the_keys_of_the_object_store_are_readable_by_their_owner_only(settings: Settings) -> None:
    from frazil.local_stack import write_private

    path = settings.stack.folder / "s3.json"
    write_private(path, "secret")
    assert path.stat().st_mode & 0o777 == 0o600


class BrokenStore(ObjectStore):
    """A service with a fault of our own in it."""

    def start(self, report: object = None) -> bool:
        raise TypeError("a fault of ours")


def test_an_unexpected_fault_is_an_error_of_up_not_a_line_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stack, "service", lambda self, name: BrokenStore(self.settings))
    with pytest.raises(TypeError, match="a fault of ours"):
        Stack(with_port_zero(tmp_path)).up(["object-store"], lambda event: None)


def test_secrets_are_made_once_at_random_and_readable_by_their_owner_only(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / ".frazil", tmp_path / "b" / ".frazil"]
    first, other = (make_secrets(folder) for folder in folders)
    assert make_secrets(folders[0]) == first == read_secrets(folders[0])
    assert len({*first.values(), *other.values()}) == 4
    assert min(len(value) for value in first.values()) >= 32
    assert (folders[0] / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert folders[0].stat().st_mode & 0o777 == 0o700


def test_two_first_starts_at_once_agree_on_the_secrets(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        mapped = list(pool.map(lambda _: make_secrets(tmp_path / "stack"), range(8)))
    assert all(item == mapped[0] for item in mapped)


def test_a_project_finds_its_stacks_secrets_and_a_setting_wins_over_them(tmp_path: Path) -> None:
    secrets = make_secrets(tmp_path / ".frazil")
    settings = load_settings(folder=tmp_path, environ={}, flags={"stack.postgres_password": "mine"})
    assert settings.stack.secret_access_key.get_secret_value() == secrets["secret_access_key"]
    assert settings.stack.postgres_password.get_secret_value() == "mine"
    assert settings.source_of("stack.secret_access_key") == str(tmp_path / ".frazil" / "secrets.json")
    assert secrets["secret_access_key"] not in repr(settings)


def test_the_stacks_object_store_is_known_once_it_has_keys(tmp_path: Path) -> None:
    flags = {"stack.ports.object_store": "0", "stack.folder": str(tmp_path / ".frazil")}
    assert stack_s3(load_settings(folder=tmp_path, environ={}, flags=flags)) is None
    secrets = make_secrets(tmp_path / ".frazil")
    (tmp_path / ".frazil" / "ports.json").write_text('{"object_store": 4711}')
    s3 = stack_s3(load_settings(folder=tmp_path, environ={}, flags=flags))
    assert s3 is not None
    assert s3.secret_access_key is not None
    assert (s3.endpoint, s3.secret_access_key.get_secret_value()) == (
        "http://127.0.0.1:4711",
        secrets["secret_access_key"],
    )


def test_a_folder_of_an_earlier_version_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / ".frazil").mkdir(mode=0o755)
    make_secrets(tmp_path / ".frazil")
    assert (tmp_path / ".frazil").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_the_user_chose_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    make_secrets(tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
