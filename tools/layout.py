"""The packages of `src/frazil`, in import order: read by the test of the import graph, and drawn in
docs/architecture.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = "![Which package imports which: arrows point to what is imported](explanation/packages.svg)\n"
BEGIN, END = "<!-- layout: written by make docs -->\n", "<!-- end of layout -->\n"


@dataclass(frozen=True)
class Package:
    """A package or a single module below `frazil`; it may import only what stands above it."""

    name: str
    about: str
    parts: Mapping[str, str] = field(default_factory=dict)  # subpackages in import order, with what they are about


LAYOUT = (
    Package("errors", "the error tree, drawn at the top of its `__init__.py`"),
    Package("terminal", "text for a terminal: control characters become visible"),
    Package("markup", "HTML for notebooks: tables of bounded size"),
    Package("notebook", "progress bars below the cells of notebooks"),
    Package("logs", "logs on standard error, without secrets"),
    Package("metrics", "counters and histograms, and their Prometheus text"),
    Package("lazy", "public names of packages, imported when they are first used"),
    Package("units", "numbers as people write and read them: counts, bytes, durations, ages"),
    Package("names", "names of tables, namespaces and columns as callers write them"),
    Package("moved", "former names of modules, for one release"),
    Package("local_stack", "what a project's local stack keeps about itself: its secrets, its ports"),
    Package("served", "which catalog `serve` and `up` have started for a project"),
    Package("config", "settings and profiles: flags > environment > file > defaults"),
    Package("protocol", "the stored names that modules share: properties, summary keys, companion tables, refs"),
    Package("properties", "which table properties are unsafe for clients"),
    Package("storage_errors", "what the errors of object stores and file systems mean"),
    Package("arrow_compat", "workarounds for faults of pyarrow, each with its reason"),
    Package("puffin", "Puffin files: sketches, deletion vectors, indexes"),
    Package("processes", "child processes that end with their parent"),
    Package("artifacts", "the cache folder, jars by Ivy, Java, pinned hashes, downloads with progress"),
    Package("pyiceberg_compat", "the private names of PyIceberg that we touch, each with its reason"),
    Package(
        "client",
        "the REST client on top of PyIceberg: several tables in one commit, idempotency keys, ETags, commit outcomes",
    ),
    Package("ownership", "which project a table belongs to"),
    Package("spark", "sessions, clusters, `spark-submit`, work spread over tasks"),
    Package(
        "scan",
        "reads",
        {
            "manifests": "Avro decoded into Arrow columns",
            "planning": "which files, and why not the others",
            "reading": "rows, deletes, columns by field id",
            "engines": "pandas, Polars, DuckDB, Daft, Spark",
            "rest": "plans in the specification's JSON",
        },
    ),
    Package(
        "write",
        "the write path",
        {
            "files": "buffer, split by partition, Parquet, statistics",
            "contract": "rows against types and checks",
            "commit": "progress, snapshots, manifests, publish",
            "upsert": "changes by key",
        },
    ),
    Package("vector", "vector search: the index, its segments, exact search, and both over a scan"),
    Package("tables", "tables as code: declare -> compare -> steps -> apply, drift, import"),
    Package("history", "log, diff, rollback, branches and tags; bisect and blame"),
    Package(
        "sinks",
        "the hosts of the write path: Python, Bytewax, Daft",
        {"delta": "Delta as a target", "spark": "tasks and driver"},
    ),
    Package("quarantine", "rejected rows: list, replay, drop"),
    Package("upkeep", "compaction, delete files, manifests, expiry, orphans"),
    Package(
        "pipelines",
        "declared pipelines on Spark",
        {
            "files": "landing files as Arrow",
            "upsert": "changes by key, merged by Spark",
            "batch": "runs and the ledger",
            "stream": "Kafka, a commit for each batch",
            "models": "tables that queries over tables make",
            "graph": "pipelines and models: order, selectors, lineage, drawings",
        },
    ),
    Package("project", "a user's lakehouse.py"),
    Package("testing", "tests of models: given rows in, expected rows out"),
    Package("openlineage", "events of OpenLineage for every run"),
    Package("dagster", "assets of Dagster from a project's graph"),
    Package("engine_config", "the settings that each engine needs to reach the catalog: the texts of `frazil connect`"),
    Package("lake", "the Python API: `Lake`, its tables, SQL over them"),
    Package("jupyter", "the magic `%%frazil` of notebooks"),
    Package("services", "the local stack, one module for each server; doctor"),
    Package(
        "catalog",
        "the REST server: app -> routes -> operations -> commit (pure) -> publish -> store",
        {
            "files": "metadata files on disk and S3",
            "store": "SQL",
            "storage": "access to the files of one table: short-lived credentials, signed requests",
            "access": "what each route needs, and the gate that every request passes",
            "appends": "appends that are rebased onto the head of their branch, and committed in groups",
            "operations": "one function for each operation",
            "upkeep": "workers that maintain tables: debt, leases, status",
        },
    ),
    Package(
        "console",
        "web pages over the catalog: the routes of their JSON, and the files of the front end",
        {
            "work": "queries and changes in child processes of the server, with the caller's rights",
            "project": "what the project in the server's folder declares, asked in a process of its own",
            "pipelines": "the graph of pipelines and tables, laid out; states, runs, streams; plan and apply",
        },
    ),
    Package("cli", "the commands: parse, call the library, print"),
)
NAMES = tuple(package.name for package in LAYOUT)
PARTS = {package.name: tuple(package.parts) for package in LAYOUT}
# Modules that users import by their own names, next to the names of their package.
PUBLIC_MODULES = frozenset(
    {
        "frazil.pipelines.sources",
        "frazil.tables.transforms",
        "frazil.sinks.audit",
        "frazil.sinks.bytewax",
        "frazil.cli.main",
    }
)


@dataclass(frozen=True)
class Import:
    """One import of our own code by our own code, whether it runs, runs late or is for type checkers only."""

    importer: str  # module
    imported: str
    names: tuple[str, ...]  # none for `import module`
    line: int


@cache
def modules() -> dict[str, Path]:
    """Every module by its name."""
    result = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        result[name.removesuffix(".__init__")] = file
    return result


@cache
def imports() -> tuple[Import, ...]:
    """All of them."""
    return tuple(
        item for module, file in modules().items() for item in _imports_of(module, ast.parse(file.read_text("utf-8")))
    )


def _imports_of(module: str, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in modules():
                    yield Import(module, alias.name, (), node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            parts = [alias.name for alias in node.names if f"{node.module}.{alias.name}" in modules()]
            for part in parts:
                yield Import(module, f"{node.module}.{part}", (), node.lineno)
            if names := tuple(alias.name for alias in node.names if alias.name not in parts):
                yield Import(module, str(node.module), names, node.lineno)


def package_of(module: str) -> str:
    """The package or part that a module belongs to, without the leading `frazil`.

    >>> package_of("frazil.scan.planning.plan"), package_of("frazil.scan.scan"), package_of("frazil.errors"), package_of("frazil")
    ('scan.planning', 'scan', 'errors', '')
    """  # noqa: E501
    names = module.split(".")[1:]
    if len(names) > 1 and names[1] in PARTS.get(names[0], ()):
        return f"{names[0]}.{names[1]}"
    return names[0] if names else ""


def is_package(name: str) -> bool:
    file = modules().get(f"frazil.{name}")
    return file is not None and file.name == "__init__.py"


def points_down(module: Import) -> bool:
    """Whether an import goes against the order: to a package further down, or to a later part of its own package."""
    importer, imported = package_of(module.importer), package_of(module.imported)
    if not importer or not imported or importer == "__main__":
        return False  # `frazil` itself and `python -m frazil` stand above all
    head, other = importer.partition(".")[0], imported.partition(".")[0]
    if head != other:
        return NAMES.index(other) > NAMES.index(head)
    own, part = importer.partition(".")[2], imported.partition(".")[2]
    return bool(own and part) and PARTS[head].index(part) > PARTS[head].index(own)


def passes_by(module: Import) -> bool:
    """Whether an import takes a name from inside another package, past its `__init__`."""
    package = package_of(module.imported)
    if not package or package == package_of(module.importer) or not is_package(package):
        return False
    if module.imported == f"frazil.{package}" or module.imported in PUBLIC_MODULES:
        return False
    # the parts of the server, and of the console, are their own affair
    head = package.partition(".")[0]
    return not (head in ("catalog", "console") and package_of(module.importer).partition(".")[0] == head)


def cycles() -> list[list[str]]:
    """Groups of modules that import each other, also by imports for type checkers. A package's own `__init__` is not a
    part of one.
    """
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for module in imports():
        for target in _targets(module):
            if target != module.importer and modules()[module.importer].name != "__init__.py":
                graph[module.importer].add(target)
    return [group for group in _connected(graph) if len(group) > 1]


def _targets(module: Import) -> Iterator[str]:
    """The modules that an import leads to: for a public name of a package, the module that has it."""
    if not is_package(module.imported.removeprefix("frazil.")):
        yield module.imported
        return
    homes = {
        name: module.imported for module in imports() if module.importer == module.imported for name in module.names
    }
    for name in module.names:
        if name in homes:
            yield homes[name]


def _connected(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected components, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    groups: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            start = stack.index(node)
            groups.append(sorted(stack[start:]))
            del stack[start:]

    for node in graph:
        if node not in index:
            visit(node)
    return groups


# --- the drawing in docs/architecture.md -----------------------------------------------------------------------------


def render_page() -> str:
    """docs/architecture.md with the map and the graph of today."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n{_map()}\n{PICTURE}{END}{after}"


def _map() -> str:
    lines = []
    for package in LAYOUT:
        name = f"{package.name}/" if is_package(package.name) else package.name
        lines.append(f"    {name:<18}{package.about}".rstrip())
        lines += [f"      {part + '/':<16}{about}" for part, about in package.parts.items()]
    return "\n".join(lines) + "\n"


def package_graph() -> dict[str, list[str]]:
    """What each package imports, without what follows from the rest; in import order."""
    uses: dict[str, set[str]] = {name: set() for name in NAMES if is_package(name)}
    for module in imports():
        importer, imported = (package_of(name).partition(".")[0] for name in (module.importer, module.imported))
        if importer in uses and imported in uses and importer != imported:
            uses[importer].add(imported)
    reach: dict[str, set[str]] = {}
    for name in (name for name in NAMES if name in uses):  # in import order: what it uses is known
        reach[name] = uses[name].union(*(reach[other] for other in uses[name]))
    return {
        name: [
            other for other in NAMES if other in uses[name] - set[str]().union(*(reach[each] for each in uses[name]))
        ]
        for name in reach
    }
