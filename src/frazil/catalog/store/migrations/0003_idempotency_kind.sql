ALTER TABLE idempotency ADD COLUMN kind {text};
ALTER TABLE idempotency ADD COLUMN uuid {text};
