CREATE TABLE upkeep (
    table_uuid {text} PRIMARY KEY,
    metadata_location {text} NOT NULL,
    score BIGINT NOT NULL,
    debt {text} NOT NULL,
    scored_ms BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    next_ms BIGINT NOT NULL DEFAULT 0,
    run {text},
    owner {text},
    generation BIGINT NOT NULL DEFAULT 0,
    expires_ms BIGINT NOT NULL DEFAULT 0
);
