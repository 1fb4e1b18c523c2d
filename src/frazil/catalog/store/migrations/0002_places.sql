ALTER TABLE relations ADD COLUMN places_known INTEGER NOT NULL DEFAULT 0;
CREATE INDEX relations_without_places ON relations (warehouse) WHERE places_known = 0;
CREATE TABLE places (
    place {text} NOT NULL,
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    name {text} NOT NULL,
    FOREIGN KEY (warehouse, namespace, name) REFERENCES relations (warehouse, namespace, name) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX places_by_place ON places (place);
CREATE INDEX places_by_relation ON places (warehouse, namespace, name);
CREATE TABLE namespace_places (
    place {text} NOT NULL,
    warehouse {text} NOT NULL,
    namespace {text} NOT NULL,
    PRIMARY KEY (warehouse, namespace),
    FOREIGN KEY (warehouse, namespace) REFERENCES namespaces (warehouse, namespace) ON DELETE CASCADE
);
CREATE INDEX namespace_places_by_place ON namespace_places (place);
