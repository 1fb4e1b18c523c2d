DROP INDEX relations_by_location;
-- sqlite only: the rows lie in the index of their place, so that a new table writes one page less
CREATE TABLE places_by_key (
    place {text} NOT NULL,
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    name {text} NOT NULL,
    PRIMARY KEY (place, warehouse, namespace, name),
    FOREIGN KEY (warehouse, namespace, name) REFERENCES relations (warehouse, namespace, name) ON DELETE CASCADE ON UPDATE CASCADE
) WITHOUT ROWID;
-- sqlite only
INSERT INTO places_by_key (place, warehouse, namespace, name) SELECT DISTINCT place, warehouse, namespace, name FROM places;
-- sqlite only
DROP TABLE places;
-- sqlite only
ALTER TABLE places_by_key RENAME TO places;
-- sqlite only
CREATE INDEX places_by_relation ON places (warehouse, namespace, name);
