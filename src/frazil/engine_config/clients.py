"""Configurations for clients beyond the five of `engines`: Python libraries, ClickHouse, Sail, dbt, Flink, Kafka
Connect, Go, Rust.

Each is text that runs as it stands where the client is installed; docs/engines.md says with which versions it was
tried. Keys are named by their variables, as in `engines`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from frazil.engine_config.connection import KEY_VARIABLE, S3, SECRET_VARIABLE, TOKEN_VARIABLE, Connection
from frazil.engine_config.engines import duckdb
from frazil.errors import ConfigError

ICEBERG_JAVA = "1.11.0"  # the newest with a runtime for Flink 2.1 and a Kafka Connect sink
# Iceberg's Parquet files are read and written with Hadoop's classes, also where there is no Hadoop; 2.x lacks some of
# them.
HADOOP_CLIENT = [f"org.apache.hadoop:hadoop-client-{part}:3.4.2" for part in ("api", "runtime")]
FAILSAFE = "dev.failsafe:failsafe:3.3.2"
DEFAULT_WAREHOUSE = "default"


def variables(to: Connection, *, show_secrets: bool = False) -> str:
    """Lines for a shell, `eval "$(frazil connect env --show-secrets)"`: what AWS clients, Polars, DuckDB and dlt look
    for.

    >>> from frazil.engine_config.connection import S3, Connection
    >>> print(variables(Connection("lake", "http://127.0.0.1:8181", s3=S3("http://127.0.0.1:8333", "us-east-1"))), end="")
    # the keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or say --show-secrets
    export FRAZIL_CATALOG__URI='http://127.0.0.1:8181'
    export AWS_ENDPOINT_URL='http://127.0.0.1:8333'
    export AWS_REGION='us-east-1'
    export AWS_DEFAULT_REGION='us-east-1'
    export AWS_ALLOW_HTTP='true'
    """  # noqa: E501
    environment: dict[str, str | None] = {"FRAZIL_CATALOG__URI": to.uri, "FRAZIL_CATALOG__WAREHOUSE": to.warehouse}
    if to.s3:
        is_plain = (to.s3.endpoint or "").startswith("http://")
        environment |= {
            "AWS_ENDPOINT_URL": to.s3.endpoint,
            "AWS_REGION": to.s3.region,
            "AWS_DEFAULT_REGION": to.s3.region,
        }
        environment |= {"AWS_ALLOW_HTTP": "true"} if is_plain else {}
    head = ""
    if show_secrets:
        environment |= {TOKEN_VARIABLE: to.token}
        environment |= {KEY_VARIABLE: to.s3.key, SECRET_VARIABLE: to.s3.secret} if to.s3 else {}
    elif to.s3:
        head = f"# the keys: set {KEY_VARIABLE} and {SECRET_VARIABLE}, or say --show-secrets\n"
    lines = [f"export {name}={_shell(value)}\n" for name, value in environment.items() if value is not None]
    return _left_out(to, show_secrets) + head + "".join(lines)


def polars(to: Connection, *, show_secrets: bool = False) -> str:
    """A Python module: `from lake_polars import scan`, then `scan("namespace.table")` is a lazy frame."""
    head = _environment(to, show_secrets)
    return (
        f'{_left_out(to, show_secrets)}"""Polars on the catalog {to.name!r}."""\n\nimport os\n\nimport polars as pl\n'
        f"from pyiceberg.catalog import load_catalog\n\n{head}"
        f"catalog = load_catalog({to.name!r}, **{_pyiceberg(to, show_secrets)})\n\n\n"
        'def scan(name: str) -> pl.LazyFrame:\n    """A table by its full name."""\n'
        "    return pl.scan_iceberg(catalog.load_table(name))\n"
    )


def _environment(to: Connection, show_secrets: bool) -> str:
    """Python that sets what object stores are reached by, in this process alone: Polars goes to AWS without
    AWS_ENDPOINT_URL.
    """
    if to.s3 is None:
        return ""
    known = {"AWS_ENDPOINT_URL": to.s3.endpoint, "AWS_REGION": to.s3.region}
    known |= {KEY_VARIABLE: to.s3.key, SECRET_VARIABLE: to.s3.secret} if show_secrets else {}
    lines = [f"os.environ[{name!r}] = {value!r}\n" for name, value in known.items() if value]
    note = "" if show_secrets else f"# the keys: export {KEY_VARIABLE}=... {SECRET_VARIABLE}=...\n"
    return note + "".join(lines) + "\n"


def _pyiceberg(to: Connection, show_secrets: bool) -> str:
    properties: dict[str, str] = {"type": repr("rest"), "uri": repr(to.uri)}
    properties |= {"warehouse": repr(to.warehouse)} if to.warehouse else {}
    if to.token:
        properties["token"] = repr(to.token) if show_secrets else f'os.environ["{TOKEN_VARIABLE}"]'
    properties |= {key: repr(value) for key, value in (to.properties or {}).items()} if show_secrets else {}
    return "{" + ", ".join(f"{key!r}: {value}" for key, value in properties.items()) + "}"


def ibis(to: Connection, *, show_secrets: bool = False) -> str:
    """A Python module: `from lake_ibis import table`, then `table("namespace.table")` is an expression, run
    by DuckDB.
    """
    statements = [
        line
        for line in duckdb(to, show_secrets=show_secrets).splitlines()
        if not line.startswith(("--", "INSTALL", "LOAD"))
    ]
    # getenv() is a function of DuckDB's shell: Python puts the values in.
    lines = [f"    {_python_text(line)},\n" for line in statements]
    return (
        f'{_left_out(to, show_secrets)}"""Ibis on the catalog {to.name!r}, through DuckDB."""\n\nimport os  # noqa: F401\n\nimport ibis\n\n'  # noqa: E501
        'con = ibis.duckdb.connect()\nfor extension in ("httpfs", "avro", "iceberg"):\n    '
        "con.load_extension(extension)\n"
        f"for statement in (\n{''.join(lines)}):\n    con.raw_sql(statement)\n\n\n"
        'def table(name: str) -> ibis.Table:\n    """A table by its full name."""\n    namespace, _, short = name.rpartition(".")\n'  # noqa: E501
        f"    return con.table(short, database=({to.name!r}, namespace))\n"
    )


def _python_text(statement: str) -> str:
    text = repr(statement)
    for variable in (KEY_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE):
        text = text.replace(f"getenv(\\'{variable}\\')", f"getenv('{variable}')")
        text = text.replace(f"getenv('{variable}')", f"""'" + os.environ["{variable}"] + "'""")
    return text


def dlt(to: Connection, *, show_secrets: bool = False) -> str:
    """`.dlt/secrets.toml`: the filesystem destination with `table_format="iceberg"` then writes through the catalog."""
    store = _store(to, "dlt writes to a bucket")
    # Without a warehouse dlt asks for one called after its own dataset.
    catalog = {"type": "rest", "uri": to.uri, "warehouse": to.warehouse or DEFAULT_WAREHOUSE}
    catalog |= {"token": to.token} if to.token and show_secrets else {}
    keys = {"endpoint_url": store.endpoint, "region_name": store.region}
    keys |= {"aws_access_key_id": store.key, "aws_secret_access_key": store.secret} if show_secrets else {}
    note = "" if show_secrets else f"# the keys: export {KEY_VARIABLE}=... {SECRET_VARIABLE}=...\n"
    return (
        f"{_left_out(to, show_secrets)}{note}"
        f'[iceberg_catalog]\niceberg_catalog_name = {json.dumps(to.name)}\niceberg_catalog_type = "rest"\n\n'
        f"[iceberg_catalog.iceberg_catalog_config]\n{_toml(catalog)}\n"
        '[destination.filesystem]\nbucket_url = "<location of the warehouse>"  # dlt chooses the tables\' places '
        "below it\n\n"
        f"[destination.filesystem.credentials]\n{_toml(keys)}"
    )


def clickhouse(to: Connection, *, show_secrets: bool = False) -> str:
    """Statements for `clickhouse-client` or chdb; tables are `` <name>.`namespace.table` ``."""
    store = _store(to, "ClickHouse reads tables from an object store")
    keys = (store.key, store.secret) if show_secrets else (f"<{KEY_VARIABLE}>", f"<{SECRET_VARIABLE}>")
    spelled = "".join(f", {_sql(value or '')}" for value in keys)
    options = {"catalog_type": "rest", "warehouse": to.warehouse or DEFAULT_WAREHOUSE}
    options |= (
        {"storage_endpoint": f"{store.endpoint}/<bucket of the warehouse>"}
        if store.endpoint
        else {"region": store.region}
    )
    if to.token:
        options["auth_header"] = f"Authorization: Bearer {to.token if show_secrets else f'<{TOKEN_VARIABLE}>'}"
    listed = ", ".join(f"{key} = {_sql(value)}" for key, value in options.items())
    return (
        f"{_left_out(to, show_secrets, mark='--')}"
        "SET allow_database_iceberg = 1;  -- the catalog\n"
        "SET allow_insert_into_iceberg = 1;  -- INSERT\n"
        "SET write_full_path_in_iceberg_metadata = 1;  -- or other engines do not find the new files\n"
        f"CREATE DATABASE {to.name} ENGINE = DataLakeCatalog({_sql(to.uri + '/v1')}{spelled})\n    SETTINGS {listed};\n"
    )


def sail(to: Connection, *, show_secrets: bool = False) -> str:
    """Lines for a shell, before `sail spark server` or pysail starts; tables are `<name>.<namespace>.<table>`."""
    catalog = {"type": "iceberg-rest", "name": to.name, "uri": to.uri}
    catalog |= {"warehouse": to.warehouse} if to.warehouse else {}
    listed = ", ".join(f"{key}={json.dumps(value)}" for key, value in catalog.items())
    if to.token:
        listed += (
            f', bearer_access_token="{to.token}"'
            if show_secrets
            else f', bearer_access_token="\'"${TOKEN_VARIABLE}"\'"'
        )
    lines = [f"export SAIL_CATALOG__LIST='[{{{listed}}}]'\n"]
    if to.s3:
        environment = {"AWS_ENDPOINT": to.s3.endpoint, "AWS_REGION": to.s3.region}
        environment |= {"AWS_ALLOW_HTTP": "true"} if (to.s3.endpoint or "").startswith("http://") else {}
        environment |= {KEY_VARIABLE: to.s3.key, SECRET_VARIABLE: to.s3.secret} if show_secrets else {}
        lines += [f"export {name}={_shell(value)}\n" for name, value in environment.items() if value]
    note = "" if show_secrets or not to.s3 else f"# the keys: export {KEY_VARIABLE}=... {SECRET_VARIABLE}=...\n"
    return _left_out(to, show_secrets) + note + "".join(lines)


def dbt(to: Connection, *, show_secrets: bool = False) -> str:
    """`profiles.yml` for dbt-duckdb. Models must be `incremental`: DuckDB cannot rename the Iceberg table that a
    `table` model makes.
    """

    def secret(value: str | None, variable: str) -> str:
        return json.dumps(value if show_secrets and value else "{{ env_var('" + variable + "') }}")

    text = (
        f"{_left_out(to, show_secrets)}{to.name}:\n  target: dev\n  outputs:\n    dev:\n      type: duckdb\n      "
        f"path: ':memory:'\n"
    )
    text += (
        f"      database: {to.name}\n      schema: dbt  # a namespace: create it first\n      extensions: "
        f"[httpfs, avro, iceberg]\n"
    )
    secrets = []
    if to.s3:
        where = urlsplit(to.s3.endpoint or "")
        place = (
            {"endpoint": where.netloc, "url_style": "path", "use_ssl": where.scheme == "https"}
            if to.s3.endpoint
            else {}
        )
        lines = [f"key_id: {secret(to.s3.key, KEY_VARIABLE)}", f"secret: {secret(to.s3.secret, SECRET_VARIABLE)}"]
        lines += [f"{key}: {json.dumps(value)}" for key, value in {**place, "region": to.s3.region}.items()]
        secrets.append(["type: s3", *lines])
    if to.token:
        secrets.append(["type: iceberg", "name: lake_catalog", f"token: {secret(to.token, TOKEN_VARIABLE)}"])
    if secrets:
        text += "      secrets:\n" + "".join("        - " + "\n          ".join(lines) + "\n" for lines in secrets)
    access = "secret: lake_catalog" if to.token else "authorization_type: none"
    return text + (
        f"      attach:\n        - path: {json.dumps(to.warehouse or '')}\n          alias: {to.name}\n          "
        f"type: iceberg\n"
        f"          options:\n            endpoint: {json.dumps(to.uri)}\n            {access}\n            "
        f"access_delegation_mode: none\n"
    )


def flink_jars(*, s3: bool) -> list[str]:
    """What must lie in Flink's lib folder."""
    jars = [f"org.apache.iceberg:iceberg-flink-runtime-2.1:{ICEBERG_JAVA}", *HADOOP_CLIENT]
    return [*jars, f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_JAVA}"] if s3 else jars


def flink(to: Connection, *, show_secrets: bool = False) -> str:
    """Statements for Flink's SQL client, or `execute_sql` in PyFlink."""
    options = {"type": "iceberg", **_java(to, show_secrets)}
    jars = flink_jars(s3=to.s3 is not None)
    listed = ",\n".join(f"  {_sql(key)} = {_sql(value)}" for key, value in options.items())
    return (
        f"{_left_out(to, show_secrets, mark='--')}-- jars in lib/: "
        f"{', '.join(jars)}\n{_java_keys(to, show_secrets, '--')}"
        f"CREATE CATALOG {to.name} WITH (\n{listed}\n);\nUSE CATALOG {to.name};\n"
        "-- a stream commits at its checkpoints: SET 'execution.checkpointing.interval' = '10 s';\n"
    )


def kafka_connect_jars(*, s3: bool) -> list[str]:
    """What the sink needs as a plugin of the worker, next to the dependencies of these jars."""
    names = [
        "iceberg-kafka-connect",
        "iceberg-parquet",
        "iceberg-orc",
        *(["iceberg-aws", "iceberg-aws-bundle"] if s3 else []),
    ]
    return [*(f"org.apache.iceberg:{name}:{ICEBERG_JAVA}" for name in names), *HADOOP_CLIENT, FAILSAFE]


def kafka_connect(to: Connection, *, show_secrets: bool = False) -> str:
    """Properties of Iceberg's Kafka Connect sink."""
    options = {
        "name": f"{to.name}-sink",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": "<topic>",
        "iceberg.tables": "<namespace.table>",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.commit.interval-ms": "60000",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        **{
            f"iceberg.catalog.{key.replace('catalog-type', 'type')}": value
            for key, value in _java(to, show_secrets).items()
        },
    }
    listed = "".join(f"#   {jar}\n" for jar in kafka_connect_jars(s3=to.s3 is not None))
    return (
        f"{_left_out(to, show_secrets)}# jars, with their dependencies, in a folder of the worker's "
        f"plugin.path:\n{listed}"
        # A sink hears of a commit when records come, or at this interval; after 30 s its answer waits for the next
        # commit.
        "# worker: offset.flush.interval.ms=10000 (or rows of a quiet topic come minutes late)\n"
        f"{_java_keys(to, show_secrets, '#')}" + "".join(f"{key}={value}\n" for key, value in options.items())
    )


def _java(to: Connection, show_secrets: bool) -> dict[str, str]:
    """The properties of Iceberg's Java catalog; the AWS SDK takes the keys from the environment."""
    properties = {"catalog-type": "rest", "uri": to.uri}
    properties |= {"warehouse": to.warehouse} if to.warehouse else {}
    properties |= {"token": to.token} if to.token and show_secrets else {}
    if to.s3:
        properties |= {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "client.region": to.s3.region}
        properties |= {"s3.endpoint": to.s3.endpoint} if to.s3.endpoint else {}
        properties |= {"s3.path-style-access": str(to.s3.path_style).lower()}
        properties |= (
            {"s3.access-key-id": to.s3.key, "s3.secret-access-key": to.s3.secret}
            if show_secrets and to.s3.key and to.s3.secret
            else {}
        )
    return properties | (dict(to.properties or {}) if show_secrets else {})


def _java_keys(to: Connection, show_secrets: bool, mark: str) -> str:
    if show_secrets or not (to.s3 or to.token):
        return ""
    keys = f"{mark} in the environment of the workers: {KEY_VARIABLE}, {SECRET_VARIABLE}\n" if to.s3 else ""
    return keys + (f"{mark} add the catalog's token as 'token': it is in {TOKEN_VARIABLE}\n" if to.token else "")


def go(to: Connection, *, show_secrets: bool = False) -> str:
    """A Go function for github.com/apache/iceberg-go 0.7."""
    properties = {"s3.endpoint": to.s3.endpoint, "s3.region": to.s3.region} if to.s3 else {}
    known = {key: json.dumps(value) for key, value in properties.items() if value}
    if to.s3:
        names = {"s3.access-key-id": (to.s3.key, KEY_VARIABLE), "s3.secret-access-key": (to.s3.secret, SECRET_VARIABLE)}
        known |= {
            key: json.dumps(value) if show_secrets and value else f'os.Getenv("{name}")'
            for key, (value, name) in names.items()
        }
    options = [f"rest.WithWarehouseLocation({json.dumps(to.warehouse)})"] if to.warehouse else []
    if to.token:
        options.append(
            f"rest.WithOAuthToken({json.dumps(to.token) if show_secrets else f'os.Getenv({json.dumps(TOKEN_VARIABLE)})'})"  # noqa: E501
        )
    if known:
        width = max(len(json.dumps(key)) for key in known) + 1  # gofmt aligns the values
        lines = "".join(f"\t\t{json.dumps(key) + ':':<{width}} {value},\n" for key, value in known.items())
        options.append(f"rest.WithAdditionalProps(iceberg.Properties{{\n{lines}\t}})")
    imports = ["context", "os"] if "os.Getenv" in "".join(options) else ["context"]
    packages = ["github.com/apache/iceberg-go"] if known else []
    packages += ["github.com/apache/iceberg-go/catalog/rest"]
    listed = "".join(f'\t"{name}"\n' for name in imports) + "\n" + "".join(f'\t"{name}"\n' for name in packages)
    # Local files need no import; io/gocloud itself would bring Azure's and Google's clients, too.
    listed += '\t_ "github.com/apache/iceberg-go/io/gocloud/s3"\n' if to.s3 else ""
    arguments = "".join(f", {option}" for option in options)
    return (
        f"{_left_out(to, show_secrets, mark='//')}package lake\n\nimport (\n{listed})\n\n"
        "func Open(ctx context.Context) (*rest.Catalog, error) {\n"
        f"\treturn rest.NewCatalog(ctx, {json.dumps(to.name)}, {json.dumps(to.uri)}{arguments})\n}}\n"
    )


def rust(to: Connection, *, show_secrets: bool = False) -> str:
    """A Rust function for the crates iceberg, iceberg-catalog-rest and iceberg-storage-opendal 0.10."""
    properties = {"uri": json.dumps(to.uri)} | ({"warehouse": json.dumps(to.warehouse)} if to.warehouse else {})

    def secret(value: str | None, variable: str) -> str:
        return json.dumps(value) if show_secrets and value else f'std::env::var("{variable}").unwrap()'

    if to.token:
        properties["token"] = secret(to.token, TOKEN_VARIABLE)
    if to.s3:
        properties |= {"s3.endpoint": json.dumps(to.s3.endpoint)} if to.s3.endpoint else {}
        properties |= {
            "s3.region": json.dumps(to.s3.region),
            "s3.path-style-access": json.dumps(str(to.s3.path_style).lower()),
        }
        properties |= {
            "s3.access-key-id": secret(to.s3.key, KEY_VARIABLE),
            "s3.secret-access-key": secret(to.s3.secret, SECRET_VARIABLE),
        }
    lines = "".join(
        f"        ({json.dumps(key)}.to_string(), {value}.to_string()),\n" for key, value in properties.items()
    )
    factory = f"OpenDalStorageFactory::{'S3 { customized_credential_load: None }' if to.s3 else 'Fs'}"
    return (
        f"{_left_out(to, show_secrets, mark='//')}use std::{{collections::HashMap, sync::Arc}};\n\n"
        "use iceberg::CatalogBuilder;\nuse iceberg_catalog_rest::{RestCatalog, RestCatalogBuilder};\n"
        "use iceberg_storage_opendal::OpenDalStorageFactory;\n\n"
        f"pub async fn open() -> iceberg::Result<RestCatalog> {{\n    let properties = HashMap::from([\n{lines}    "
        f"]);\n"
        f"    let storage = Arc::new({factory});\n"
        f"    RestCatalogBuilder::default().with_storage_factory(storage).load({json.dumps(to.name)}, "
        f"properties).await\n}}\n"
    )


def _store(to: Connection, why: str) -> S3:
    if to.s3 is None:
        raise ConfigError(
            f"{why}, and the tables of this catalog are local files",
            hint="start one with frazil up, or set s3.endpoint",
        )
    return to.s3


def _left_out(to: Connection, show_secrets: bool, *, mark: str = "#") -> str:
    if show_secrets or not to.properties:
        return ""
    return f"{mark} left out, for they may hold secrets (--show-secrets): {', '.join(sorted(to.properties))}\n"


def _shell(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"


def _sql(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _toml(values: Mapping[str, str | None]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)
