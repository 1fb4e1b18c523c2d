ALTER TABLE places ADD COLUMN folded {text};
CREATE INDEX places_by_folded ON places (folded);
