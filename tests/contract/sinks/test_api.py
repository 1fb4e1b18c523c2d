"""What `frazil.sinks` offers, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import frazil.sinks


def test_the_names_are_these() -> None:
    assert frazil.sinks.__all__ == [
        "ArrowSink",
        "FlushPolicy",
        "Host",
        "Mode",
        "Options",
        "SinkOptions",
        "WriteResult",
        "open",
    ]
    assert all(getattr(frazil.sinks, name) for name in frazil.sinks.__all__)
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        frazil.sinks.close  # noqa: B018


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("frazil.sinks", ["pyarrow", "pyiceberg"]),
        ("frazil.sinks.opening", ["deltalake", "sqlglot", "bytewax", "pyspark", "daft"]),
    ],
)
def test_a_module_loads_no_library_that_it_does_not_need(module: str, absent: list[str]) -> None:
    program = f"import sys, {module}; print([name for name in {absent} if name in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
        == "[]"
    )


@pytest.mark.requirement("arrow.direct")
def test_rows_come_in_where_there_is_no_pandas() -> None:
    """PyArrow loads pandas if it is installed; here it is not to be found."""
    program = """
        import sys

        class NoPandas:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "pandas":
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, NoPandas())
        import pyarrow as pa
        from pyiceberg.schema import Schema
        from pyiceberg.types import LongType, NestedField
        import frazil.sinks
        from frazil.catalog.embedded import running_catalog
        from frazil.client import FrazilCatalog

        with running_catalog() as server:
            catalog = FrazilCatalog("lake", **server.properties)
            catalog.create_namespace("lake")
            catalog.create_table("lake.t", Schema(NestedField(1, "id", LongType())))
            with frazil.sinks.open("lake.t", name="s", catalog=catalog) as sink:
                sink.write(pa.table({"id": [1, 2]}), position=2)
            print(catalog.load_table("lake.t").scan().to_arrow()["id"].to_pylist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[1, 2]"
