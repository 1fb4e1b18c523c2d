"""Settings and profiles: one model, filled by flags > environment > frazil.toml > the catalog started here > defaults.

    frazil.toml                        environment                      flag
    [stack.ports] kafka = 19092        FRAZIL_STACK__PORTS__KAFKA       frazil --set stack.ports.kafka=19092

A profile is a named set of overrides: `[profiles.prod.catalog]` wins over `[catalog]` when the profile is `prod`. The
profile comes from `--profile`, `FRAZIL_PROFILE`, the file's `profile`, or is `local`. Connections that PyIceberg knows
(`.pyiceberg.yaml`, `PYICEBERG_CATALOG__NAME__KEY`) are read too, each one step below Frazil's own of the same kind.

Any text value may hold `${ENV:NAME}`, which is replaced by that environment variable, so that a file never holds a
secret. Secrets are
`SecretStr`: they print as `**********` and only `.get_secret_value()` reveals them.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from frazil import local_stack
from frazil.errors import ConfigError
from frazil.served import FILE_NAME as SERVED_FILE
from frazil.served import read_served

FILE_NAME = "frazil.toml"
Tree = dict[str, Any]  # nested settings as read from a source; leaves are what TOML can hold


def _split_commas(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_split_commas)]


SigningAlgorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # with a private and a public key
IssuerName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$")]


class _Section(BaseModel):
    # A traceback prints the cause of an error too: what was given may be a secret, whatever its key.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class CatalogSettings(_Section):
    """How Frazil, and the engines it configures, reach the REST catalog."""

    name: str = "lake"  # what engines call the catalog: lake.shop.orders
    uri: str = "http://127.0.0.1:8181"  # the address of the catalog
    warehouse: str | None = None  # without it, the default one of the catalog
    token: SecretStr | None = None  # a bearer token or API key
    # any other property of PyIceberg's REST catalog; may hold credentials under any name
    properties: dict[str, str] = Field(default_factory=dict, repr=False)


class ProjectSettings(_Section):
    """Who the project in this folder is; its tables remember the name. docs/pipelines.md says when it is compared."""

    name: str | None = None  # without it, the name of the folder


class S3Settings(_Section):
    """How the object store is reached; keys left out come from the usual AWS variables."""

    endpoint: str | None = None  # the address of the store; without it, that of AWS
    region: str = "us-east-1"  # the region that requests are signed for
    access_key_id: SecretStr | None = None  # the access key
    secret_access_key: SecretStr | None = None  # its secret
    path_style_access: bool = True  # the bucket stands in the path of a URL, not in its host


KIB, MIB = 1024, 1024 * 1024


class Limits(_Section):
    """What the catalog server accepts from clients, and how long it waits for them; docs/catalog.md explains each."""

    body_bytes: int = Field(default=32 * MIB, gt=0)  # size of a body, unpacked
    # unpacked bytes per packed byte, of bodies and metadata files over 1 MiB
    body_ratio: int = Field(default=100, ge=1)
    body_seconds: float = Field(default=30.0, gt=0)  # for a whole body to arrive
    # for the head of a request, and for the first byte of its body
    first_byte_seconds: float = Field(default=10.0, gt=0)
    json_values: int = Field(default=500_000, gt=0)  # numbers, texts, lists and objects in one body
    # memory of all requests and unsent answers together, estimated
    in_flight_bytes: int = Field(default=256 * MIB, gt=0)
    header_bytes: int = Field(default=64 * KIB, gt=0)  # size of all headers of a request
    url_bytes: int = Field(default=16 * KIB, gt=0)  # size of a request's URL
    # how long an idle connection is kept: longer than clients and proxies keep it, so that they close first
    idle_seconds: int = Field(default=75, gt=0)
    write_seconds: float = Field(default=30.0, gt=0)  # how long a client may take to read some of its answer
    request_seconds: float = Field(default=120.0, gt=0)  # for a whole request, from its head to its answer
    shutdown_seconds: int = Field(default=30, gt=0)  # for requests in flight at the end of the server
    # open connections per worker; the one that waits longest makes room for a new one
    connections: int = Field(default=1000, gt=0)
    concurrent_requests: int = Field(default=512, gt=0)  # requests at a time per worker, reads from memory not counted
    threads: int = Field(default=32, gt=0)  # per worker, for the requests that wait for database or store
    cache_bytes: int = Field(default=256 * MIB, ge=0)  # memory for parsed metadata files
    manifest_bytes: int = Field(default=256 * MIB, ge=0)  # memory for decoded manifests, kept for scan planning
    metadata_bytes: int = Field(default=256 * MIB, gt=0)  # size of a metadata file that is read, unpacked
    new_metadata_bytes: int = Field(default=64 * MIB, gt=0)  # size of one that a commit writes or a client registers
    plan_files: int = Field(default=5_000, gt=0)  # files of a plan, in one answer
    filter_literals: int = Field(default=10_000, gt=0)  # values and predicates in the filter of a scan
    filter_bytes: int = Field(default=MIB, gt=0)  # size of that filter as JSON
    searches: int = Field(default=2, ge=0)  # vector searches at a time; 0: none are served
    search_vectors: int = Field(default=100, gt=0)  # vectors in one search
    search_results: int = Field(default=10_000, gt=0)  # rows that a search asks for, of all its vectors
    search_rows: int = Field(default=1_000_000, gt=0)  # rows that a search compares one by one, where no index has them
    index_bytes: int = Field(default=64 * MIB, gt=0)  # memory for blocks of vector indexes, per warehouse
    search_bytes: int = Field(default=256 * MIB, gt=0)  # size of the files with rows that a search compares
    commit_updates: int = Field(default=20_000, gt=0)  # updates, and requirements, of one table in a commit
    namespace_bytes: int = Field(default=256 * KIB, gt=0)  # size of the properties of a namespace
    report_bytes: int = Field(default=64 * KIB, gt=0)  # size of a metrics report

    # With authentication on:
    principal_requests: float = Field(default=0, ge=0)  # requests per second, principal and worker; 0: no limit
    principal_body_bytes: float = Field(default=0, ge=0)  # bytes of their bodies, per second; 0: no limit
    principal_plan_files: float = Field(default=0, ge=0)  # files that plans name, per second; 0: no limit


class StorageProfile(_Section):
    """How clients of a warehouse reach its object store without keys of their own."""

    role_arn: str | None = None  # the role that the server assumes for each table; without it none are vended
    sts_endpoint: str | None = None  # without it, the endpoint of the object store, else that of AWS
    session_seconds: int = Field(default=3600, ge=900, le=43200)  # how long credentials last
    remote_signing: bool = False  # the server signs the requests of clients, one by one
    unchecked_batch_deletes: bool = False  # also batch deletes, if the store does not hold them to their signed body


class OidcIssuer(_Section):
    """An OpenID Connect issuer whose tokens the server accepts."""

    issuer: str  # its address, exactly as in the claim `iss`
    audience: Annotated[CommaList, Field(min_length=1)]  # the claim `aud` must have one of these
    # of the signature of a token
    algorithms: Annotated[tuple[SigningAlgorithm, ...], BeforeValidator(_split_commas), Field(min_length=1)] = (
        "RS256",
        "ES256",
    )
    principal_claim: str = "sub"  # the claim that names the principal
    groups_claim: str = "groups"  # the claim with the groups; with dots for a claim in a claim: realm_access.roles
    roles: dict[str, str] = Field(default_factory=dict)  # by group; further roles as `frazil role add` gives them


class UpkeepSettings(_Section):
    """How the catalog maintains tables by itself: `frazil serve --upkeep` and `frazil upkeep`; docs/upkeep.md."""

    tables: Literal["all", "enabled"] = "all"  # which tables; enabled: only those with the property upkeep.enabled
    orphans: bool = False  # remove orphan files, too, of tables that do not say so themselves
    share: float = Field(default=0.25, gt=0, le=1)  # part of the time that a worker may be busy
    bytes_per_second: int = Field(default=0, ge=0)  # how much compaction reads; 0: no limit
    poll_seconds: float = Field(default=10.0, gt=0)  # time between looks for tables that have changed
    table_seconds: float = Field(default=60.0, ge=0)  # time from the end of a run to the next one of the same table
    quiet_seconds: float = Field(default=15.0, ge=0)  # a table that was changed since then waits for twice the debt
    lease_seconds: float = Field(default=30.0, ge=0.1, le=3600)  # after this time another worker takes over
    stop_seconds: float = Field(default=5.0, gt=0)  # longest time from SIGTERM to the end


class ServerSettings(_Section):
    """What `frazil serve` starts."""

    host: str = "127.0.0.1"  # the address to listen on
    port: int = Field(default=8181, ge=0, le=65535)  # 0: a free one
    workers: int = Field(default=1, ge=1)  # processes that answer requests
    database: SecretStr = SecretStr("sqlite:///.frazil/catalog/catalog.db")  # the URL of SQLite or PostgreSQL
    # locations by the name of the warehouse; naming one replaces the default
    warehouses: dict[str, str] = Field(default_factory=lambda: {"default": ".frazil/warehouse"})
    storage: dict[str, StorageProfile] = Field(default_factory=dict)  # by warehouse
    allow_locations: CommaList = ()  # prefixes of locations outside the warehouse that tables may have
    allow_properties: CommaList = ()  # patterns of properties that are refused otherwise, see frazil.properties
    allow_overlap: bool = False  # let a table's location contain another one, or lie in it
    # for tables without the property commit.rebase-appends.enabled; only where writers do nothing but append
    rebase_appends: bool = False
    allowed_hosts: CommaList = ()  # names under which clients reach the server, beyond its own address
    authentication: Literal["off", "keys"] = "off"  # whether callers need an API key or a token
    pepper_file: Path | None = None  # the file that API keys are hashed with; without it, next to a SQLite database
    # the key of the secrets of warehouses in the database: 32 bytes in base64 or hexadecimal digits
    secret_key: SecretStr | None = None
    secret_key_file: Path | None = None  # a file with that key
    tls_certificate: Path | None = None  # a PEM file
    tls_key: Path | None = None  # a PEM file
    behind_proxy: bool = False  # a proxy terminates TLS
    upkeep: bool = False  # maintain tables, in a process of its own
    console: bool = True  # serve the web pages of the console at /
    # where clients reach the server, if a proxy changes host or path: https://lake.example.org/catalog
    public_uri: str | None = None
    oidc: dict[IssuerName, OidcIssuer] = Field(default_factory=dict)  # by a name for the issuer
    limits: Limits = Limits()

    @property
    def secret_keys(self) -> tuple[str | None, str | None]:
        """The key of secrets, and the file that holds it."""
        text = self.secret_key.get_secret_value() if self.secret_key is not None else None
        return text, str(self.secret_key_file) if self.secret_key_file is not None else None


class Ports(_Section):
    """The ports of these servers; 0: a free one."""

    catalog: int = Field(default=8181, ge=0, le=65535)  # of the catalog
    object_store: int = Field(default=8333, ge=0, le=65535)  # of SeaweedFS
    postgres: int = Field(default=5432, ge=0, le=65535)  # of PostgreSQL
    kafka: int = Field(default=9092, ge=0, le=65535)  # of Kafka
    trino: int = Field(default=8080, ge=0, le=65535)  # of Trino
    spark: int = Field(default=0, ge=0, le=65535)  # of the warm Spark


class StackSettings(_Section):
    """The local servers that `frazil up` starts."""

    folder: Path = Path(".frazil")  # where the servers keep their data and logs
    bucket: str = "lakehouse"  # the bucket that the object store begins with
    access_key_id: str = "frazil"  # the access key of the object store
    secret_access_key: SecretStr = SecretStr("")  # empty: made at random at the first `up`, and kept in the folder
    postgres_password: SecretStr = SecretStr("")  # empty: as for the secret access key
    ready_seconds: float = Field(default=180.0, gt=0)  # how long a server may take to start
    ports: Ports = Ports()


class SearchSettings(_Section):
    """Vector searches of this machine."""

    # disk for blocks of vector indexes in object stores; 0: none
    cache_bytes: int = Field(default=2 * 1024 * MIB, ge=0)


class SparkSettings(_Section):
    """What a pipeline's Spark session is built with; `conf` holds any Spark setting. docs/cluster.md tells what a
    cluster needs.
    """

    master: str = "local[*]"  # Spark's own, or that of a cluster
    warm: bool = True  # use the Spark that `frazil up --with spark` keeps, if it runs and the settings fit
    driver_memory: str = "2g"  # memory of the driver's JVM
    # where executors reach the driver; without it, loopback for a master there, else Spark's own choice
    driver_host: str | None = None
    executors: int | None = Field(default=None, ge=1)  # how many executors a cluster starts
    executor_cores: int | None = Field(default=None, ge=1)  # cores of each
    executor_memory: str | None = None  # memory of each
    executor_seconds: float = Field(default=120.0, gt=0)  # how long to wait for the first of them
    threads: int = Field(default=4, ge=1)  # tables that `frazil run` computes at once
    python: str | None = None  # the executors' interpreter; without it, the path of this one
    # a packed Python environment that each executor unpacks, in place of one that is there
    environment: Path | None = None
    java_home: Path | None = None  # the Java to use; without it, one that is found or downloaded
    ivy_settings: Path | None = None  # Ivy's settings file, for jars from a repository of your own
    packages: CommaList = ()  # more jars, by coordinates: those of a database's driver, of Avro, of Delta
    conf: dict[str, str] = Field(default_factory=dict, repr=False)  # any Spark setting


class Settings(_Section):
    """All settings of one profile, and where each value came from."""

    profile: str = "local"
    project: ProjectSettings = ProjectSettings()
    catalog: CatalogSettings = CatalogSettings()
    s3: S3Settings = S3Settings()
    server: ServerSettings = ServerSettings()
    stack: StackSettings = StackSettings()
    spark: SparkSettings = SparkSettings()
    search: SearchSettings = SearchSettings()
    upkeep: UpkeepSettings = UpkeepSettings()
    sources: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    def source_of(self, key: str) -> str:
        """Where the value of a dotted key came from: a file, a variable, a flag, or `default`."""
        return next(
            (source for known, source in self.sources.items() if known == key or known.startswith(f"{key}.")), "default"
        )


def load_settings(
    *,
    flags: Mapping[str, str] | None = None,
    profile: str | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flag_source: str = "flag",
) -> Settings:
    """The settings that hold in `folder`: flags (dotted keys) > environment > files > the catalog started here >
    defaults. `flag_source` is what errors call the place of the flags.
    """
    environ = os.environ if environ is None else environ
    folder = folder or Path.cwd()
    file, file_tree = _read_toml(folder, environ)
    label = str(file) if file else FILE_NAME
    profiles, named = file_tree.pop("profiles", {}), file_tree.pop("profile", None)
    chosen = profile or environ.get("FRAZIL_PROFILE") or named or "local"
    profile_tree = _profile_tree(profiles, chosen, label)
    own_env = _env_tree(environ)
    name = _catalog_name(flags, own_env, profile_tree, file_tree)
    layers: list[tuple[str, Tree]] = [
        *_pyiceberg_file(folder, environ, name),
        (label, file_tree),
        (f"{label} [profiles.{chosen}]", profile_tree),
        *_pyiceberg_env(environ, name),
        ("environment", own_env),
        (flag_source, _dotted_tree(flags or {})),
    ]
    stack_folder = Path(_last_value(layers, "stack", "folder") or StackSettings().folder)
    served = read_served(folder / stack_folder)
    if served is not None:
        layers.insert(0, (str(stack_folder / SERVED_FILE), {"catalog": {"uri": served.uri}}))
    merged, sources = _merge_layers(layers)
    try:
        settings = Settings.model_validate(
            {**_resolve(merged, environ, sources), "profile": chosen, "sources": sources}
        )
    except ValidationError as exc:
        raise _explain(exc, sources) from exc
    settings = with_stack_secrets(settings, folder / settings.stack.folder)
    if served and (served.command, served.uri) == ("up", settings.catalog.uri):
        return _with_stack_key(_with_stack_s3(settings), folder)
    return settings


def _profile_tree(profiles: object, chosen: str, label: str) -> Tree:
    """The settings below `[profiles.CHOSEN]`; `local` need not be defined."""
    if chosen != "local" and isinstance(profiles, dict) and chosen not in profiles:
        known = ", ".join(["local", *profiles])
        raise ConfigError(
            f"profile '{chosen}' is not defined in {label}; known: {known}",
            hint=f"add [profiles.{chosen}] to {FILE_NAME}",
            name=chosen,
        )
    tree = profiles.get(chosen, {}) if isinstance(profiles, dict) else None
    if not isinstance(tree, dict):
        raise ConfigError(
            f"profile '{chosen}' in {label} is not a table",
            hint=f"write [profiles.{chosen}.catalog], and settings below it",
            name=chosen,
        )
    return tree


def _merge_layers(layers: Sequence[tuple[str, Tree]]) -> tuple[Tree, dict[str, str]]:
    """One tree in which later layers win, and the source of each dotted key."""
    merged: Tree = {}
    sources: dict[str, str] = {}
    for source, layer in layers:
        tree = _flatten_free(layer, source)
        _merge(merged, tree)
        for key, _ in _leaves(tree):
            sources[key] = f"FRAZIL_{key.upper().replace('.', '__')}" if source == "environment" else source
    return merged, sources


# --- the local stack's own secrets -----------------------------------------------------------------------------------


def with_stack_secrets(settings: Settings, folder: Path, *, make: bool = False) -> Settings:
    """The settings with each secret of the stack that is not set replaced by the one in the stack's folder, if there is
    one.

    With `make`, secrets that the folder does not have are made first.
    """
    unset = [name for name in local_stack.SECRETS if not getattr(settings.stack, name).get_secret_value()]
    if not unset:
        return settings
    stored = (local_stack.make_secrets if make else local_stack.read_secrets)(folder)
    known = {name: SecretStr(stored[name]) for name in unset if name in stored}
    sources = settings.sources | {f"stack.{name}": str(local_stack.secrets_file(folder)) for name in known}
    return settings.model_copy(update={"stack": settings.stack.model_copy(update=known), "sources": sources})


def stack_s3(settings: Settings) -> S3Settings | None:
    """How the object store of this project's local stack is reached, keys included; None before its first
    `frazil up`.
    """
    stack = settings.stack
    if not stack.secret_access_key.get_secret_value():
        return None
    port = stack.ports.object_store or local_stack.read_ports(stack.folder).get("object_store")
    if not port:
        return None
    return S3Settings(
        endpoint=f"http://127.0.0.1:{port}",
        region=settings.s3.region,
        access_key_id=SecretStr(stack.access_key_id),
        secret_access_key=stack.secret_access_key,
    )


def _with_stack_s3(settings: Settings) -> Settings:
    """The settings with endpoint and keys of the local stack, for a project that uses its catalog; what is set by the
    user stays.
    """
    store = stack_s3(settings)
    if store is None or settings.s3.endpoint not in (None, store.endpoint):
        return settings
    names = [name for name in ("endpoint", "access_key_id", "secret_access_key") if getattr(settings.s3, name) is None]
    source = str(settings.stack.folder / SERVED_FILE)
    sources = settings.sources | {f"s3.{name}": source for name in names}
    s3 = settings.s3.model_copy(update={name: getattr(store, name) for name in names})
    return settings.model_copy(update={"s3": s3, "sources": sources})


def _with_stack_key(settings: Settings, folder: Path) -> Settings:
    """The settings with the API key of the local stack's catalog, if it asks for one and none is set."""
    own, stack_folder = settings.catalog, folder / settings.stack.folder
    if settings.server.authentication == "off" or own.token is not None or "credential" in own.properties:
        return settings
    key = local_stack.read_catalog_key(stack_folder)
    if key is None:
        return settings
    sources = settings.sources | {"catalog.token": str(local_stack.catalog_key_file(settings.stack.folder))}
    catalog = own.model_copy(update={"token": SecretStr(key)})
    return settings.model_copy(update={"catalog": catalog, "sources": sources})


# --- the sources -----------------------------------------------------------------------------------------------------


def _read_toml(folder: Path, environ: Mapping[str, str]) -> tuple[Path | None, Tree]:
    named = environ.get("FRAZIL_CONFIG")
    path = Path(named) if named else folder / FILE_NAME
    if not path.exists():
        if named:
            raise ConfigError(f"FRAZIL_CONFIG names {path}, which does not exist", path=str(path))
        return None, {}
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path} is not valid TOML: {exc}", path=str(path), reason=str(exc)) from exc
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror}", path=str(path)) from exc


def _env_tree(environ: Mapping[str, str]) -> Tree:
    """`FRAZIL_STACK__PORTS__KAFKA=1` as {"stack": {"ports": {"kafka": "1"}}}; names without `__` are not settings."""
    values = {k[7:].lower().replace("__", "."): v for k, v in environ.items() if k.startswith("FRAZIL_") and "__" in k}
    return _dotted_tree(values)


def _dotted_tree(values: Mapping[str, str]) -> Tree:
    """
    >>> _dotted_tree({"s3.region": "eu", "s3.endpoint": "http://x"})
    {'s3': {'region': 'eu', 'endpoint': 'http://x'}}
    """
    tree: Tree = {}
    for key, value in values.items():
        *parents, leaf = key.split(".")
        node = tree
        for depth, parent in enumerate(parents, start=1):
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                section = ".".join(parents[:depth])
                raise ConfigError(
                    f"'{section}' is set to a value, and '{key}' to one below it",
                    hint=f"leave out '{section}'",
                    option=section,
                )
        node[leaf] = value
    return tree


def _last_value(layers: Sequence[tuple[str, Tree]], section: str, key: str) -> str | None:
    """What the strongest layer says of a setting."""
    sections = [node for _, tree in reversed(layers) if isinstance(node := tree.get(section), dict)]
    return next((str(node[key]) for node in sections if key in node), None)


def _catalog_name(flags: Mapping[str, str] | None, *trees: Tree) -> str:
    """The catalog's name decides which of PyIceberg's connections is ours, so it is looked up before they are read."""
    if flags and "catalog.name" in flags:
        return flags["catalog.name"]
    sections = [section for tree in trees if isinstance(section := tree.get("catalog"), dict)]
    return next((str(section["name"]) for section in sections if "name" in section), CatalogSettings().name)


def _pyiceberg_env(environ: Mapping[str, str], name: str) -> Iterator[tuple[str, Tree]]:
    prefix = f"PYICEBERG_CATALOG__{name.upper().replace('-', '_')}__"
    for variable, value in environ.items():
        if variable.startswith(prefix):
            # PyIceberg writes `__` for a dot and `_` for a dash: S3__ACCESS_KEY_ID is s3.access-key-id.
            key = variable[len(prefix) :].lower().replace("__", ".").replace("_", "-")
            yield variable, _from_pyiceberg({key: value})


def _pyiceberg_file(folder: Path, environ: Mapping[str, str], name: str) -> Iterator[tuple[str, Tree]]:
    homes = [environ.get("PYICEBERG_HOME"), environ.get("HOME"), str(folder)]
    path = next((p for home in homes if home and (p := Path(home) / ".pyiceberg.yaml").exists()), None)
    if path is None:
        return
    import strictyaml  # PyIceberg's own choice, which comes with it; imported only here, for the file is rare

    try:
        text = path.read_text(encoding="utf-8")
        content = strictyaml.load(text).data if text.strip() else {}
        connection = dict((content.get("catalog") or {}).get(name) or {})
    except (strictyaml.YAMLError, AttributeError, TypeError, ValueError, OSError) as exc:
        raise ConfigError(
            f"{path} is not a valid PyIceberg configuration: {exc}", path=str(path), reason=str(exc)
        ) from exc
    yield str(path), _from_pyiceberg({str(k): str(v) for k, v in connection.items()})


_PYICEBERG_KEYS = {
    "uri": "catalog.uri",
    "warehouse": "catalog.warehouse",
    "token": "catalog.token",
    "s3.endpoint": "s3.endpoint",
    "s3.region": "s3.region",
    "s3.access-key-id": "s3.access_key_id",
    "s3.secret-access-key": "s3.secret_access_key",
}


def property_flags(properties: Mapping[str, str]) -> dict[str, str]:
    """PyIceberg properties as settings by their dotted names, for `load_settings(flags=...)`.

    >>> property_flags({"uri": "http://h", "s3.region": "eu", "header.x": "1", "type": "rest"})
    {'catalog.uri': 'http://h', 's3.region': 'eu', 'catalog.properties.header.x': '1'}
    """
    known = {key: value for key, value in properties.items() if key != "type"}
    return {_PYICEBERG_KEYS.get(key, f"catalog.properties.{key}"): str(value) for key, value in known.items()}


def _from_pyiceberg(connection: Mapping[str, str]) -> Tree:
    """
    >>> _from_pyiceberg({"uri": "http://h", "s3.region": "eu", "header.x": "1"})
    {'catalog': {'uri': 'http://h', 'properties': {'header.x': '1'}}, 's3': {'region': 'eu'}}
    """
    tree = _dotted_tree({_PYICEBERG_KEYS[k]: v for k, v in connection.items() if k in _PYICEBERG_KEYS})
    if rest := {k: v for k, v in connection.items() if k not in _PYICEBERG_KEYS and k != "type"}:
        tree.setdefault("catalog", {})["properties"] = rest
    return tree


# --- merging and checking --------------------------------------------------------------------------------------------


def _merge(base: Tree, over: Tree) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _merge(base[key], value)
        else:
            base[key] = _copy(value)


_FREE = (("catalog", "properties"), ("spark", "conf"))  # names that are not ours, with dots in them


def _flatten_free(tree: Tree, source: str) -> Tree:
    """The tree with names inside `catalog.properties` and `spark.conf` kept whole, and their values as text.

    >>> _flatten_free({"spark": {"conf": {"spark": {"sql": {"ansi": True}}, "spark.x": 4}}}, "flag")
    {'spark': {'conf': {'spark.sql.ansi': 'true', 'spark.x': '4'}}}
    """
    tree = _copy(tree)
    for section, name in _FREE:
        node = tree.get(section)
        if isinstance(node, dict) and isinstance(node.get(name), dict):
            node[name] = {
                key: _as_text(value, f"{section}.{name}.{key} ({source})") for key, value in _leaves(node[name])
            }
    return tree


def _as_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError(f"setting {where}: expected text or a number, got a {type(value).__name__}", option=where)


def _copy(value: Any) -> Any:
    return {k: _copy(v) for k, v in value.items()} if isinstance(value, dict) else value


def _leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_REFERENCE = re.compile(r"\$\{ENV:([A-Za-z_][A-Za-z0-9_]*)\}")


def _resolve(value: Any, environ: Mapping[str, str], sources: Mapping[str, str], key: str = "") -> Any:
    """The value with each `${ENV:NAME}` replaced."""
    if isinstance(value, dict):
        return {k: _resolve(v, environ, sources, f"{key}.{k}" if key else k) for k, v in value.items()}
    if isinstance(value, list):
        return [_resolve(v, environ, sources, key) for v in value]
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environ:
            raise ConfigError(
                f"setting '{key}' refers to ${{ENV:{name}}}, but {name} is not set ({sources.get(key, 'default')})",
                hint=f"export {name}=...",
                option=key,
            )
        return environ[name]

    return _REFERENCE.sub(lookup, value)


def _explain(exc: ValidationError, sources: Mapping[str, str]) -> ConfigError:
    """The first fault in words: the key, where it was set, what was found (never for secrets), and the nearest name."""
    fault = exc.errors(include_url=False)[0]
    key = ".".join(str(part) for part in fault["loc"])
    source = Settings(sources=dict(sources)).source_of(key)
    if fault["type"] == "extra_forbidden":
        near = difflib.get_close_matches(key, sorted(known_keys()), n=1)
        hint = f"did you mean '{near[0]}'?" if near else "frazil config lists all settings"
        return ConfigError(f"unknown setting '{key}' ({source})", hint=hint, option=key)
    got = "" if is_secret(key) or isinstance(fault["input"], dict | list) else f", got {fault['input']!r}"
    return ConfigError(f"setting '{key}' ({source}): {fault['msg']}{got}", option=key)


def known_keys() -> list[str]:
    """Every setting as a dotted key."""
    return [key for key, _ in _leaves(Settings().model_dump())]


def is_secret(key: str) -> bool:
    """Whether the value of a setting with this name is better not shown."""
    return bool(re.search(r"secret|token|password|credential|access.?key|database", key, re.IGNORECASE))


def redact_url(url: str) -> str:
    """The URL with its passwords hidden, whether it is well-formed or not.

    >>> redact_url("postgresql://frazil:hunter2@127.0.0.1/cat"), redact_url("postgresql:///cat?user=me&password=hunter2")
    ('postgresql://frazil:***@127.0.0.1/cat', 'postgresql:///cat?user=me&password=***')
    """
    url = re.sub(r"(://[^:/?#@]*):.*@", r"\1:***@", url)
    return re.sub(r"([?&][^=&]*(?:password|secret|token|credential)[^=&]*=)[^&#]*", r"\1***", url, flags=re.IGNORECASE)
