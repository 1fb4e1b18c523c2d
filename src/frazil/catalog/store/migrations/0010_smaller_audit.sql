DROP INDEX audit_by_time;
-- sqlite only: without AUTOINCREMENT and the index, a change writes one page of the log instead of three
CREATE TABLE audit_rows (
    id INTEGER PRIMARY KEY,
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
-- sqlite only
INSERT INTO audit_rows SELECT id, at_ms, actor, key_id, address, request_id, operation, objects, decision, note FROM audit;
-- sqlite only
DROP TABLE audit;
-- sqlite only
ALTER TABLE audit_rows RENAME TO audit;
