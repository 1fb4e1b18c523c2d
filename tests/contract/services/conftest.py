"""A stack folder with free ports, and a toy server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from frazil.config import Settings, load_settings
from frazil.services import ports
from tests.kit.toy import SCRIPT, Toy


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    names = ("catalog", "object_store", "postgres", "kafka", "trino")
    chosen: dict[str, int] = {}
    for name in names:
        chosen[f"stack.ports.{name}"] = ports.free_port(avoid=chosen.values())
    flags = {key: str(port) for key, port in chosen.items()}
    return load_settings(
        flags={"stack.folder": str(tmp_path / "stack"), "stack.ready_seconds": "60", **flags},
        environ={},
        folder=tmp_path,
    )


@pytest.fixture
def make_toy(settings: Settings) -> Iterator[Callable[..., Toy]]:
    """Makes a toy server with another script or settings; all are stopped in the end."""
    result = []

    def make(script: str = SCRIPT, **stack: object) -> Toy:
        toy = Toy(settings.model_copy(update={"stack": settings.stack.model_copy(update=stack)}))
        toy.script = script
        result.append(toy)
        return toy

    yield make
    for toy in result:
        toy.stop()
