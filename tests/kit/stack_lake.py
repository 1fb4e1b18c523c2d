"""What the walk-throughs share: how a client reaches the live stack, and the rows that they write."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from tests.kit.stack import Project

DIMENSIONS = 128
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("embedding", pa.list_(pa.float32(), DIMENSIONS))])


def connection(project: Project) -> dict[str, str]:
    """The properties of a PyIceberg catalog on the stack: the catalog's address, the warehouse by its location, S3 with
    its keys.
    """
    stack = project.settings.stack
    return {
        "type": "rest",
        "uri": f"http://127.0.0.1:{stack.ports.catalog}",
        "warehouse": f"s3://{stack.bucket}/",
        "s3.endpoint": s3_endpoint(project),
        "s3.access-key-id": stack.access_key_id,
        "s3.secret-access-key": stack.secret_access_key.get_secret_value(),
        "s3.region": "us-east-1",
    }


def s3_endpoint(project: Project) -> str:
    return f"http://127.0.0.1:{project.settings.stack.ports.object_store}"


def vector(number: int) -> list[float]:
    """An embedding of which every engine can tell whose it is; exact in 32 bits."""
    return [number + position / 128 for position in range(DIMENSIONS)]


def rows(*ids: int) -> pa.Table:
    """Rows as in the walk-through: an id, a name, an embedding."""
    return pa.table(
        {"id": list(ids), "name": [f"item-{n}" for n in ids], "embedding": [vector(n) for n in ids]}, schema=SCHEMA
    )


def stored_objects(project: Project, prefix: str = "") -> list[str]:
    """The keys in the stack's bucket."""
    pages = (
        s3_client(project)
        .get_paginator("list_objects_v2")
        .paginate(Bucket=project.settings.stack.bucket, Prefix=prefix)
    )
    return sorted(entry["Key"] for page in pages for entry in page.get("Contents", []))


def s3_client(project: Project) -> Any:
    """The stack's object store, as anybody reaches it."""
    import boto3

    stack = project.settings.stack
    keys = {
        "aws_access_key_id": stack.access_key_id,
        "aws_secret_access_key": stack.secret_access_key.get_secret_value(),
    }
    return boto3.client("s3", endpoint_url=s3_endpoint(project), region_name="us-east-1", **keys)


def environment(project: Project) -> dict[str, str]:
    """The environment of a program that is to find the stack's catalog and object store by Frazil's settings."""
    stack = project.settings.stack
    return {
        **os.environ,
        "FRAZIL_CATALOG__URI": f"http://127.0.0.1:{stack.ports.catalog}",
        "FRAZIL_S3__ENDPOINT": s3_endpoint(project),
        "FRAZIL_S3__ACCESS_KEY_ID": stack.access_key_id,
        "FRAZIL_S3__SECRET_ACCESS_KEY": stack.secret_access_key.get_secret_value(),
    }
