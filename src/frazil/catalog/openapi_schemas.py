"""The JSON that operations take and give, as OpenAPI schemas. What a table's metadata holds is left to the table
specification.
"""

from __future__ import annotations

from typing import Any

from frazil.protocol import METRICS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1}
LONG: Schema = {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
TEXT_MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
ANY_OBJECT: Schema = {"type": "object"}
_HEADERS: Schema = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def many(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these fields; others are ignored."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}}
    return {**schema, "required": list(required)} if required else schema


def _tagged(
    tag: str, value: str, required: dict[str, Schema] | None = None, optional: dict[str, Schema] | None = None
) -> Schema:
    return record({tag: {"type": "string", "enum": [value]}, **(required or {})}, optional)


def _update(action: str, required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return _tagged("action", action, required, optional)


_STATISTICS = record(
    {
        "snapshot-id": LONG,
        "statistics-path": TEXT,
        "file-size-in-bytes": LONG,
        "file-footer-size-in-bytes": LONG,
        "blob-metadata": many(ANY_OBJECT),
    }
)
_PARTITION_STATISTICS = record({"snapshot-id": LONG, "statistics-path": TEXT, "file-size-in-bytes": LONG})
_BRANCH_AGES = {"min-snapshots-to-keep": INTEGER, "max-snapshot-age-ms": LONG, "max-ref-age-ms": LONG}

_COMMON_UPDATES = [
    _update("assign-uuid", {"uuid": {"type": "string", "format": "uuid"}}),
    _update("upgrade-format-version", {"format-version": INTEGER}),
    _update("add-schema", {"schema": ref("Schema")}),
    _update("set-location", {"location": TEXT}),
    _update("set-properties", {"updates": TEXT_MAP}),
    _update("remove-properties", {"removals": many(TEXT)}),
]
_TABLE_UPDATES = [
    *_COMMON_UPDATES,
    _update("set-current-schema", {"schema-id": INTEGER}),
    _update("add-spec", {"spec": ref("PartitionSpec")}),
    _update("set-default-spec", {"spec-id": INTEGER}),
    _update("add-sort-order", {"sort-order": ref("SortOrder")}),
    _update("set-default-sort-order", {"sort-order-id": INTEGER}),
    _update("add-snapshot", {"snapshot": ref("Snapshot")}),
    _update(
        "set-snapshot-ref",
        {"ref-name": TEXT, "type": {"type": "string", "enum": ["branch", "tag"]}, "snapshot-id": LONG},
        _BRANCH_AGES,
    ),
    _update("remove-snapshots", {"snapshot-ids": many(LONG)}),
    _update("remove-snapshot-ref", {"ref-name": TEXT}),
    _update("set-statistics", {"statistics": _STATISTICS}),
    _update("remove-statistics", {"snapshot-id": LONG}),
    _update("set-partition-statistics", {"partition-statistics": _PARTITION_STATISTICS}),
    _update("remove-partition-statistics", {"snapshot-id": LONG}),
    _update("remove-partition-specs", {"spec-ids": many(INTEGER)}),
    _update("remove-schemas", {"schema-ids": many(INTEGER)}),
    _update("add-encryption-key", {"encryption-key": record({"key-id": TEXT, "encrypted-key-metadata": TEXT})}),
    _update("remove-encryption-key", {"key-id": TEXT}),
]
_VIEW_UPDATES = [
    *_COMMON_UPDATES,
    _update("add-view-version", {"view-version": ref("ViewVersion")}),
    _update("set-current-view-version", {"view-version-id": INTEGER}),
]
_REQUIREMENTS = [
    _tagged("type", "assert-create"),
    _tagged("type", "assert-table-uuid", {"uuid": TEXT}),
    _tagged("type", "assert-ref-snapshot-id", {"ref": TEXT}, {"snapshot-id": {**LONG, "nullable": True}}),
    _tagged("type", "assert-last-assigned-field-id", {"last-assigned-field-id": INTEGER}),
    _tagged("type", "assert-current-schema-id", {"current-schema-id": INTEGER}),
    _tagged("type", "assert-last-assigned-partition-id", {"last-assigned-partition-id": INTEGER}),
    _tagged("type", "assert-default-spec-id", {"default-spec-id": INTEGER}),
    _tagged("type", "assert-default-sort-order-id", {"default-sort-order-id": INTEGER}),
]
_PAGE_TOKEN: Schema = {"type": "string", "nullable": True}

_SCAN_TASKS = {
    "plan-tasks": many(TEXT),
    "file-scan-tasks": many(ref("ScanTask")),
    "delete-files": many(ref("ContentFile")),
}

SCHEMAS: dict[str, Schema] = {
    "Error": record(
        {"error": record({"message": TEXT, "type": TEXT, "code": {"type": "integer", "minimum": 400, "maximum": 599}})}
    ),
    "Namespace": many({"type": "string", "minLength": 1}, minItems=1),
    "Identifier": record({"namespace": ref("Namespace"), "name": {"type": "string", "minLength": 1}}),
    "Type": {"oneOf": [TEXT, ref("Struct"), ref("List"), ref("Map")]},
    "Field": record(
        {"id": INTEGER, "name": TEXT, "type": ref("Type"), "required": BOOLEAN},
        {"doc": TEXT, "initial-default": {}, "write-default": {}},
    ),
    "Struct": _tagged("type", "struct", {"fields": many(ref("Field"))}),
    "List": _tagged("type", "list", {"element-id": INTEGER, "element": ref("Type"), "element-required": BOOLEAN}),
    "Map": _tagged(
        "type",
        "map",
        {"key-id": INTEGER, "key": ref("Type"), "value-id": INTEGER, "value": ref("Type"), "value-required": BOOLEAN},
    ),
    "Schema": _tagged(
        "type", "struct", {"fields": many(ref("Field"))}, {"schema-id": INTEGER, "identifier-field-ids": many(INTEGER)}
    ),
    "PartitionSpec": record(
        {"fields": many(record({"source-id": INTEGER, "name": TEXT, "transform": TEXT}, {"field-id": INTEGER}))},
        {"spec-id": INTEGER},
    ),
    "SortOrder": record(
        {
            "fields": many(
                record(
                    {
                        "source-id": INTEGER,
                        "transform": TEXT,
                        "direction": {"type": "string", "enum": ["asc", "desc"]},
                        "null-order": {"type": "string", "enum": ["nulls-first", "nulls-last"]},
                    }
                )
            )
        },
        {"order-id": INTEGER},
    ),
    "Snapshot": record(
        {"snapshot-id": LONG, "timestamp-ms": LONG, "manifest-list": TEXT, "summary": record({"operation": TEXT})},
        {
            "parent-snapshot-id": LONG,
            "sequence-number": LONG,
            "schema-id": INTEGER,
            "first-row-id": LONG,
            "added-rows": LONG,
        },
    ),
    "TableUpdate": {"oneOf": _TABLE_UPDATES},
    "ViewUpdate": {"oneOf": _VIEW_UPDATES},
    "TableRequirement": {"oneOf": _REQUIREMENTS},
    "ViewRequirement": _tagged("type", "assert-view-uuid", {"uuid": TEXT}),
    "ViewVersion": record(
        {
            "version-id": INTEGER,
            "timestamp-ms": LONG,
            "schema-id": INTEGER,
            "summary": TEXT_MAP,
            "representations": many(_tagged("type", "sql", {"sql": TEXT, "dialect": TEXT})),
            "default-namespace": many(TEXT),
        },
        {"default-catalog": TEXT},
    ),
    "CreateNamespace": record({"namespace": ref("Namespace")}, {"properties": TEXT_MAP}),
    "UpdateProperties": record({}, {"removals": many(TEXT, uniqueItems=True), "updates": TEXT_MAP}),
    "CreateTable": record(
        {"name": TEXT, "schema": ref("Schema")},
        {
            "location": TEXT,
            "partition-spec": ref("PartitionSpec"),
            "write-order": ref("SortOrder"),
            "stage-create": BOOLEAN,
            "properties": TEXT_MAP,
        },
    ),
    "Register": record({"name": TEXT, "metadata-location": TEXT}, {"overwrite": BOOLEAN}),
    "FindReferences": record({"files": many(TEXT)}, {"other-than": ref("Identifier"), "page-token": many(TEXT)}),
    "References": record(
        {"referenced": many(record({"file": TEXT, "table": TEXT}))},
        {"unknown": _PAGE_TOKEN, "next-page-token": {**many(TEXT), "nullable": True}},
    ),
    "IndexRecord": record(
        {
            "type": TEXT,
            "field-id": INTEGER,
            "metric": TEXT,
            "dimension": INTEGER,
            "probes": INTEGER,
            "codebook": record({"path": TEXT}),
            "segments": many(record({"path": TEXT, "size": LONG, "vectors": LONG, "files": LONG})),
        }
    ),
    "Index": record({"name": TEXT, "uuid": TEXT, "version": LONG, "updated-ms": LONG, "record": ref("IndexRecord")}),
    "Indexes": record({"indexes": many(ref("Index"))}),
    "CreateIndex": record({"name": TEXT, "record": ref("IndexRecord")}),
    "ReplaceIndex": record({"version": LONG, "record": ref("IndexRecord")}),
    "Search": record(
        {"column": TEXT},
        {
            "vector": many(NUMBER, minItems=1),
            "vectors": many(many(NUMBER, minItems=1), minItems=1),
            "k": INTEGER,
            "metric": {"type": "string", "enum": list(METRICS)},
            "snapshot-id": LONG,
            "select": many(TEXT),
            "filter": ref("Filter"),
            "case-sensitive": BOOLEAN,
            "use-snapshot-schema": BOOLEAN,
            "exact": BOOLEAN,
        },
    ),
    "SearchResult": record(
        {
            "snapshot-id": {**LONG, "nullable": True},
            "rows": many(ANY_OBJECT),
            "search": record(
                {
                    "files-indexed": INTEGER,
                    "lists-probed": LONG,
                    "rows-scored": LONG,
                    "index-bytes": LONG,
                    "files-exact": INTEGER,
                    "rows-exact": LONG,
                    "problem": {**TEXT, "nullable": True},
                    "repair": {**TEXT, "nullable": True},
                }
            ),
        }
    ),
    "Rename": record({"source": ref("Identifier"), "destination": ref("Identifier")}),
    "CommitTable": record(
        {"requirements": many(ref("TableRequirement")), "updates": many(ref("TableUpdate"))},
        {"identifier": ref("Identifier")},
    ),
    "Filter": {"oneOf": [BOOLEAN, record({"type": TEXT})]},
    "PlanScan": record(
        {},
        {
            "snapshot-id": LONG,
            "start-snapshot-id": LONG,
            "end-snapshot-id": LONG,
            "select": many(TEXT),
            "filter": ref("Filter"),
            "case-sensitive": BOOLEAN,
            "use-snapshot-schema": BOOLEAN,
            "stats-fields": many(TEXT),
            "min-rows-requested": LONG,
        },
    ),
    "FetchTasks": record({"plan-task": TEXT}),
    "CommitTransaction": record({"table-changes": many(ref("CommitTable"))}),
    "CommitView": record(
        {"updates": many(ref("ViewUpdate"))},
        {"requirements": many(ref("ViewRequirement")), "identifier": ref("Identifier")},
    ),
    "CreateView": record(
        {"name": TEXT, "schema": ref("Schema"), "view-version": ref("ViewVersion"), "properties": TEXT_MAP},
        {"location": TEXT},
    ),
    "Report": record({"report-type": {"type": "string", "enum": ["scan-report", "commit-report"]}}),
    "Grant": record({"grantee": TEXT, "privilege": TEXT}),
    "ChangeGrants": record({}, {"grant": many(ref("Grant")), "revoke": many(ref("Grant"))}),
    "Grants": record({"grants": many(record({"grantee": TEXT, "privilege": TEXT, "creator": BOOLEAN}))}),
    "RoleCheck": record({"authentication": BOOLEAN, "unknown": many(TEXT)}),
    "OAuthError": record({"error": TEXT}, {"error_description": TEXT}),
    "TokenRequest": record(
        {"grant_type": TEXT}, {"client_id": TEXT, "client_secret": TEXT, "scope": TEXT, "subject_token": TEXT}
    ),
    "Token": record(
        {"access_token": TEXT, "token_type": TEXT, "issued_token_type": TEXT}, {"expires_in": INTEGER, "scope": TEXT}
    ),
    "Config": record(
        {"defaults": TEXT_MAP, "overrides": TEXT_MAP}, {"endpoints": many(TEXT), "idempotency-key-lifetime": TEXT}
    ),
    "ContentFile": record(
        {
            "content": {"type": "string", "enum": ["data", "position-deletes", "equality-deletes"]},
            "file-path": TEXT,
            "file-format": TEXT,
            "spec-id": INTEGER,
            "partition": many({}),
            "file-size-in-bytes": LONG,
            "record-count": LONG,
        }
    ),
    "ScanTask": record(
        {"data-file": ref("ContentFile")}, {"delete-file-references": many(INTEGER), "residual-filter": ref("Filter")}
    ),
    "ScanTasks": record({}, _SCAN_TASKS),
    "PlannedScan": record({"status": {"type": "string", "enum": ["completed"]}}, {"plan-id": TEXT, **_SCAN_TASKS}),
    "Namespaces": record({"namespaces": many(ref("Namespace"))}, {"next-page-token": _PAGE_TOKEN}),
    "NamespaceResult": record({"namespace": ref("Namespace")}, {"properties": TEXT_MAP}),
    "PropertiesResult": record({"updated": many(TEXT), "removed": many(TEXT)}, {"missing": many(TEXT)}),
    "Identifiers": record({"identifiers": many(ref("Identifier"))}, {"next-page-token": _PAGE_TOKEN}),
    "TableResult": record(
        {"metadata": ANY_OBJECT},
        {
            "metadata-location": TEXT,
            "config": TEXT_MAP,
            "storage-credentials": many(ref("StorageCredential")),
            "remote-signing-config": record({}, {"properties": TEXT_MAP}),
        },
    ),
    "SignRequest": record(
        {"region": TEXT, "uri": TEXT, "method": TEXT, "headers": _HEADERS},
        {"properties": TEXT_MAP, "body": TEXT, "provider": {"type": "string", "enum": ["s3"]}},
    ),
    "SignResult": record({"uri": TEXT, "headers": _HEADERS}),
    "StorageCredential": record({"prefix": TEXT, "config": TEXT_MAP}),
    "CredentialsResult": record({"storage-credentials": many(ref("StorageCredential"))}),
    "ViewResult": record({"metadata-location": TEXT, "metadata": ANY_OBJECT}, {"config": TEXT_MAP}),
    "Functions": record({"identifiers": many(many(TEXT))}, {"next-page-token": _PAGE_TOKEN}),
    "FunctionResult": record({"metadata": ANY_OBJECT}, {"metadata-location": TEXT}),
}
