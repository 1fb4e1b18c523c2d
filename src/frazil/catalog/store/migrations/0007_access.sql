CREATE TABLE principals (
    name {text} PRIMARY KEY,
    created_ms BIGINT NOT NULL
);
CREATE TABLE api_keys (
    id {text} PRIMARY KEY,
    principal {text} NOT NULL REFERENCES principals (name) ON DELETE CASCADE,
    digest {text} NOT NULL,
    scopes {text} NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT
);
CREATE INDEX api_keys_by_principal ON api_keys (principal);
CREATE TABLE roles (
    name {text} PRIMARY KEY,
    created_ms BIGINT NOT NULL
);
CREATE TABLE role_members (
    principal {text} NOT NULL REFERENCES principals (name) ON DELETE CASCADE,
    role {text} NOT NULL REFERENCES roles (name) ON DELETE CASCADE,
    PRIMARY KEY (principal, role)
);
CREATE INDEX role_members_by_role ON role_members (role);
CREATE TABLE grants (
    grantee {text} NOT NULL,
    privilege {text} NOT NULL,
    warehouse {text},
    namespace {text},
    name {text},
    index_name {text},
    granted_by {text} NOT NULL,
    granted_ms BIGINT NOT NULL,
    FOREIGN KEY (warehouse, namespace) REFERENCES namespaces (warehouse, namespace) ON DELETE CASCADE,
    FOREIGN KEY (warehouse, namespace, name) REFERENCES relations (warehouse, namespace, name) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX grants_once ON grants (grantee, (COALESCE(warehouse, '')), (COALESCE(namespace, '')), (COALESCE(name, '')), (COALESCE(index_name, '')), privilege);
CREATE INDEX grants_by_object ON grants (warehouse, namespace, name);
CREATE TABLE access_state (
    version BIGINT NOT NULL,
    pepper_check {text}
);
INSERT INTO access_state (version) VALUES (1);
INSERT INTO roles (name, created_ms) VALUES ('admin', {now_ms});
INSERT INTO grants (grantee, privilege, granted_by, granted_ms) VALUES ('admin', 'manage', 'frazil', {now_ms});
