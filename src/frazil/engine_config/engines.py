"""Configurations with which other engines use this lake: Trino, Spark, PyIceberg, DuckDB and Daft. Others are in
`clients`.

Keys and tokens stay out of them: they are named by the variables that the engines read, the usual `AWS_ACCESS_KEY_ID`
and `AWS_SECRET_ACCESS_KEY`, and `FRAZIL_CATALOG__TOKEN`. Only `show_secrets` puts the values in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from frazil.engine_config.connection import (
    CREDENTIAL_VARIABLE,
    KEY_VARIABLE,
    SECRET_VARIABLE,
    TOKEN_VARIABLE,
    Connection,
)
from frazil.errors import ConfigError

if TYPE_CHECKING:
    pass

# --- Trino -----------------------------------------------------------------------------------------------------------


def trino(
    to: Connection,
    *,
    show_secrets: bool = False,
    key_variable: str = KEY_VARIABLE,
    secret_variable: str = SECRET_VARIABLE,
) -> str:
    """A catalog file, `etc/catalog/<name>.properties`.

    >>> from frazil.engine_config.connection import S3
    >>> print(trino(Connection("lake", "http://127.0.0.1:8181", s3=S3("http://127.0.0.1:8333", "us-east-1"))), end="")
    connector.name=iceberg
    iceberg.catalog.type=rest
    iceberg.rest-catalog.uri=http://127.0.0.1:8181
    iceberg.file-format=PARQUET
    iceberg.compression-codec=SNAPPY
    iceberg.unique-table-location=false
    fs.native-s3.enabled=true
    s3.endpoint=http://127.0.0.1:8333
    s3.region=us-east-1
    s3.path-style-access=true
    s3.aws-access-key=${ENV:AWS_ACCESS_KEY_ID}
    s3.aws-secret-key=${ENV:AWS_SECRET_ACCESS_KEY}
    """
    if to.s3 is None:
        raise ConfigError(
            "Trino reads tables from an object store, and those of this catalog are local files",
            hint="start one (frazil up --with trino does it all), or set s3.endpoint",
            problem="local-files",
        )

    def secret(value: str | None, variable: str) -> str:
        return value if show_secrets and value else f"${{ENV:{variable}}}"

    lines = {"connector.name": "iceberg", "iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": to.uri}
    lines |= {"iceberg.rest-catalog.warehouse": to.warehouse} if to.warehouse else {}
    lines |= _trino_access(to, secret)
    lines |= {"iceberg.rest-catalog.vended-credentials-enabled": "true"} if to.vended else {}
    lines |= {
        "iceberg.file-format": "PARQUET",
        # CREATE TABLE writes the codec into the table; Trino's own choice, ZSTD, is not what the other writers here
        # use.
        "iceberg.compression-codec": "SNAPPY",
        # A table lies where the other engines would put it, not in a folder with a random ending.
        "iceberg.unique-table-location": "false",
        "fs.native-s3.enabled": "true",
    }
    lines |= {"s3.endpoint": to.s3.endpoint} if to.s3.endpoint else {}
    lines |= {"s3.region": to.s3.region, "s3.path-style-access": str(to.s3.path_style).lower()}
    if not to.vended:
        lines["s3.aws-access-key"] = secret(to.s3.key, key_variable)
        lines["s3.aws-secret-key"] = secret(to.s3.secret, secret_variable)
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _trino_access(to: Connection, secret: Callable[[str | None, str], str]) -> dict[str, str]:
    """What the catalog asks for: a token, or a credential that tokens are got with."""
    prefix = "iceberg.rest-catalog"
    if to.token:
        return {f"{prefix}.security": "OAUTH2", f"{prefix}.oauth2.token": secret(to.token, TOKEN_VARIABLE)}
    if not to.credential:
        return {}
    return {
        f"{prefix}.security": "OAUTH2",
        f"{prefix}.oauth2.credential": secret(to.credential, CREDENTIAL_VARIABLE),
        f"{prefix}.oauth2.server-uri": to.oauth_uri,
    }


# --- Spark -----------------------------------------------------------------------------------------------------------


def spark(to: Connection, *, show_secrets: bool = False) -> str:
    """Lines for `conf/spark-defaults.conf`, or for `spark-submit --properties-file`; tables are
    `<name>.<namespace>.<table>`.

    >>> print(spark(Connection("lake", "http://127.0.0.1:8181", token="t")), end="")
    spark.jars.packages                  org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
    spark.sql.extensions                 org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
    spark.sql.catalog.lake               org.apache.iceberg.spark.SparkCatalog
    spark.sql.catalog.lake.type          rest
    spark.sql.catalog.lake.uri           http://127.0.0.1:8181
    spark.sql.catalog.lake.token         env:FRAZIL_CATALOG__TOKEN
    """
    from frazil.spark import ICEBERG_AWS, ICEBERG_RUNTIME

    def secret(value: str | None, variable: str) -> str:
        return value if show_secrets and value else f"env:{variable}"  # Iceberg replaces such a value by the variable's

    own: dict[str, str] = {"type": "rest", "uri": to.uri}
    own |= {"warehouse": to.warehouse} if to.warehouse else {}
    own |= {"token": secret(to.token, TOKEN_VARIABLE)} if to.token else {}
    if to.credential:
        own |= {"credential": secret(to.credential, CREDENTIAL_VARIABLE), "oauth2-server-uri": to.oauth_uri}
    own |= dict(to.properties or {}) if show_secrets else {}
    if to.s3:
        own |= {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
        own |= {"s3.endpoint": to.s3.endpoint} if to.s3.endpoint else {}
        own |= {"s3.path-style-access": str(to.s3.path_style).lower(), "client.region": to.s3.region}
        if to.signed:
            # The catalog signs nothing for a table that is gone: it purges, where Spark would drop and then delete.
            own |= {"header.X-Iceberg-Access-Delegation": "remote-signing", "rest-catalog-purge": "true"}
        elif to.vended:
            own |= {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
        else:
            own |= {
                "s3.access-key-id": secret(to.s3.key, KEY_VARIABLE),
                "s3.secret-access-key": secret(to.s3.secret, SECRET_VARIABLE),
            }
    prefix = f"spark.sql.catalog.{to.name}"
    lines = {
        "spark.jars.packages": f"{ICEBERG_RUNTIME},{ICEBERG_AWS}" if to.s3 else ICEBERG_RUNTIME,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        **{f"{prefix}.{key}": value for key, value in own.items()},
    }
    return _note(to, show_secrets) + "".join(f"{key:<36} {value}\n" for key, value in lines.items())


# --- PyIceberg -------------------------------------------------------------------------------------------------------


def pyiceberg(to: Connection, *, show_secrets: bool = False) -> str:
    """`.pyiceberg.yaml` for the home folder or the current one; `load_catalog("<name>")` then finds it.

    >>> from frazil.engine_config.connection import S3
    >>> print(pyiceberg(Connection("lake", "http://127.0.0.1:8181", s3=S3("http://127.0.0.1:8333", "us-east-1"))), end="")
    # the keys: export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
    catalog:
      lake:
        type: "rest"
        uri: "http://127.0.0.1:8181"
        s3.endpoint: "http://127.0.0.1:8333"
        s3.region: "us-east-1"
    """  # noqa: E501
    import json

    head = _note(to, show_secrets)
    if to.s3 and not show_secrets and not to.vended:
        head += f"# the keys: export {KEY_VARIABLE}=... {SECRET_VARIABLE}=...\n"
    prefix = f"PYICEBERG_CATALOG__{to.name.upper().replace('-', '_')}"
    if to.token and not show_secrets:
        head += f"# the token: export {prefix}__TOKEN=...\n"
    if to.credential and not show_secrets:
        head += f"# the credential: export {prefix}__CREDENTIAL=ID:SECRET\n"
    # JSON is YAML
    lines = [f"    {key}: {json.dumps(value)}\n" for key, value in _pyiceberg_properties(to, show_secrets).items()]
    return f"{head}catalog:\n  {to.name}:\n{''.join(lines)}"


def _pyiceberg_properties(to: Connection, show_secrets: bool) -> dict[str, str]:
    properties = {"type": "rest", "uri": to.uri, "warehouse": to.warehouse}
    if to.s3:
        properties |= {"s3.endpoint": to.s3.endpoint, "s3.region": to.s3.region}
        properties |= {} if to.s3.path_style else {"s3.force-virtual-addressing": "true"}
    properties |= {"oauth2-server-uri": to.oauth_uri} if to.credential else {}
    if show_secrets:
        properties |= {"token": to.token, **(to.properties or {})}
        if to.s3 and not to.vended:  # without keys, it asks the catalog for credentials by itself
            properties |= {"s3.access-key-id": to.s3.key, "s3.secret-access-key": to.s3.secret}
    return {key: value for key, value in properties.items() if value is not None}


# --- DuckDB ----------------------------------------------------------------------------------------------------------


def duckdb(to: Connection, *, show_secrets: bool = False) -> str:
    """Statements for DuckDB's shell, `duckdb -init FILE`; tables are `<name>.<namespace>.<table>`.

    >>> print(duckdb(Connection("lake", "http://127.0.0.1:8181")), end="")
    INSTALL httpfs; INSTALL avro; INSTALL iceberg;
    LOAD httpfs; LOAD avro; LOAD iceberg;
    ATTACH '' AS "lake" (TYPE iceberg, ENDPOINT 'http://127.0.0.1:8181', AUTHORIZATION_TYPE 'none', ACCESS_DELEGATION_MODE 'none');
    """  # noqa: E501
    from frazil.scan.engines import literal, s3_address

    def secret(value: str | None, variable: str) -> str:
        return literal(value) if show_secrets and value else f"getenv('{variable}')"

    lines = ["INSTALL httpfs; INSTALL avro; INSTALL iceberg;", "LOAD httpfs; LOAD avro; LOAD iceberg;"]
    has_keys = to.s3 is not None and not to.vended
    if (has_keys or to.token or to.credential) and not show_secrets:
        lines.insert(0, "-- getenv() is a function of DuckDB's shell; other programs put the values in its place")
    if to.s3 and has_keys:
        place = s3_address(to.s3.endpoint, path_style=to.s3.path_style) if to.s3.endpoint else []
        keys = [f"KEY_ID {secret(to.s3.key, KEY_VARIABLE)}", f"SECRET {secret(to.s3.secret, SECRET_VARIABLE)}"]
        lines.append(
            f"CREATE SECRET lake_store (TYPE s3, {', '.join([*keys, *place, f'REGION {literal(to.s3.region)}'])});"
        )
    access = "AUTHORIZATION_TYPE 'none'"
    if to.token:
        lines.append(f"CREATE SECRET lake_catalog (TYPE iceberg, TOKEN {secret(to.token, TOKEN_VARIABLE)});")
        access = "SECRET lake_catalog"
    elif to.credential:
        client, _, password = to.credential.rpartition(":")
        pair = (
            [literal(client), literal(password)]
            if show_secrets
            else [f"split_part(getenv('{CREDENTIAL_VARIABLE}'), ':', {part})" for part in (1, 2)]
        )
        where = f"CLIENT_ID {pair[0]}, CLIENT_SECRET {pair[1]}, OAUTH2_SERVER_URI {literal(to.oauth_uri)}"
        lines.append(f"CREATE SECRET lake_catalog (TYPE iceberg, {where});")
        access = "SECRET lake_catalog"
    mode = "vended_credentials" if to.vended else "none"
    options = f"TYPE iceberg, ENDPOINT {literal(to.uri)}, {access}, ACCESS_DELEGATION_MODE '{mode}'"
    name = '"' + to.name.replace('"', '""') + '"'
    lines.append(f"ATTACH {literal(to.warehouse or '')} AS {name} ({options});")
    return _note(to, show_secrets, mark="--") + "".join(f"{line}\n" for line in lines)


# --- Daft ------------------------------------------------------------------------------------------------------------


def daft(to: Connection, *, show_secrets: bool = False) -> str:
    """A Python module: `from lake_daft import read`, then `read("namespace.table")` is a frame."""

    def secret(value: str | None, variable: str) -> str:
        return repr(value) if show_secrets and value else f'os.environ["{variable}"]'

    properties = {key: repr(value) for key, value in _pyiceberg_properties(to, show_secrets).items()}
    if to.token:
        properties["token"] = secret(to.token, TOKEN_VARIABLE)
    if to.credential:
        properties["credential"] = secret(to.credential, CREDENTIAL_VARIABLE)
    io = "daft.io.IOConfig()"
    if to.vended:
        io = "None  # each table comes with credentials of its own"
    elif to.s3:
        keys = secret(to.s3.key, KEY_VARIABLE), secret(to.s3.secret, SECRET_VARIABLE)
        properties |= {"s3.access-key-id": keys[0], "s3.secret-access-key": keys[1]}
        options = {
            "endpoint_url": repr(to.s3.endpoint),
            "region_name": repr(to.s3.region),
            "key_id": keys[0],
            "access_key": keys[1],
        }
        options |= {} if to.s3.path_style else {"force_virtual_addressing": "True"}
        arguments = "".join(f"        {key}={value},\n" for key, value in options.items())
        io = f"daft.io.IOConfig(\n    s3=daft.io.S3Config(\n{arguments}    )\n)"
    lines = "".join(f"        {key!r}: {value},\n" for key, value in properties.items())
    return (
        f'{_note(to, show_secrets)}"""Daft on the catalog {to.name!r}."""\n\nimport os  # noqa: F401\n\nimport daft\n'
        f"from pyiceberg.catalog import load_catalog\n\ncatalog = load_catalog(\n    {to.name!r},\n    **{{\n{lines}  "
        f"  }},\n)\n"
        f'io_config = {io}\n\n\ndef read(name: str) -> daft.DataFrame:\n    """A table by its full name."""\n'
        "    return daft.read_iceberg(catalog.load_table(name), io_config=io_config)\n"
    )


def _note(to: Connection, show_secrets: bool, *, mark: str = "#") -> str:
    """A line that names the properties which were left out, for they may be credentials."""
    named = {"credential", "oauth2-server-uri"} if to.credential else set()  # by their variable, and as they are
    left_out = sorted(set(to.properties or {}) - named)
    if show_secrets or not left_out:
        return ""
    return f"{mark} left out, for they may hold secrets (--show-secrets): {', '.join(left_out)}\n"
