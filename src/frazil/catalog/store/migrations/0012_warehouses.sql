CREATE TABLE warehouses (
    name {text} PRIMARY KEY,
    root {text} NOT NULL,
    profile {text} NOT NULL,
    secret {text},
    secret_key_id {text},
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL
);
CREATE TABLE warehouse_state (
    version BIGINT NOT NULL
);
INSERT INTO warehouse_state (version) VALUES (1);
