CREATE TABLE former_versions (
    metadata_location {text} PRIMARY KEY,
    uuid {text} NOT NULL
);
CREATE TABLE former_versions_since (
    since_ms BIGINT NOT NULL
);
INSERT INTO former_versions_since (since_ms) VALUES ({now_ms});
