CREATE TABLE indexes (
    table_uuid {text} NOT NULL,
    name {text} NOT NULL,
    uuid {text} NOT NULL,
    version BIGINT NOT NULL,
    record {text} NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (table_uuid, name)
);
