CREATE TABLE namespaces (
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    parent {text},
    properties {text} NOT NULL,
    PRIMARY KEY (warehouse, namespace),
    FOREIGN KEY (warehouse, parent) REFERENCES namespaces (warehouse, namespace)
);
CREATE INDEX namespaces_by_parent ON namespaces (warehouse, parent, namespace);
CREATE TABLE relations (
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    name {text} NOT NULL,
    kind {text} NOT NULL CHECK (kind IN ('table', 'view')),
    uuid {text} NOT NULL,
    metadata_location {text} NOT NULL,
    previous_location {text},
    location {text} NOT NULL,
    PRIMARY KEY (warehouse, namespace, name),
    FOREIGN KEY (warehouse, namespace) REFERENCES namespaces (warehouse, namespace)
);
CREATE INDEX relations_by_kind ON relations (warehouse, namespace, kind, name);
CREATE INDEX relations_by_location ON relations (location);
CREATE TABLE idempotency (
    key {text} PRIMARY KEY,
    request {text} NOT NULL,
    status INTEGER NOT NULL,
    body {text},
    metadata_location {text},
    created_ms BIGINT NOT NULL
);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);
CREATE TABLE reports (
    id {serial},
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    name {text} NOT NULL,
    received_ms BIGINT NOT NULL,
    kind {text} NOT NULL,
    report {text} NOT NULL
);
CREATE INDEX reports_by_table ON reports (warehouse, namespace, name, id);
