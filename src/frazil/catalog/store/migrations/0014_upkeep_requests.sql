ALTER TABLE upkeep ADD COLUMN request {text};
ALTER TABLE upkeep ADD COLUMN taken_ms BIGINT NOT NULL DEFAULT 0;
CREATE TABLE upkeep_workers (
    owner {text} PRIMARY KEY,
    until_ms BIGINT NOT NULL
);
