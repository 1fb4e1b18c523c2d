CREATE INDEX relations_by_uuid ON relations (uuid);
CREATE INDEX former_versions_by_uuid ON former_versions (uuid);
