CREATE TABLE audit (
    id {serial},
    at_ms BIGINT NOT NULL,
    actor {text} NOT NULL,
    key_id {text} NOT NULL,
    address {text} NOT NULL,
    request_id {text} NOT NULL,
    operation {text} NOT NULL,
    objects {text} NOT NULL,
    decision {text} NOT NULL CHECK (decision IN ('allowed', 'refused')),
    note {text} NOT NULL
);
CREATE INDEX audit_by_time ON audit (at_ms);
