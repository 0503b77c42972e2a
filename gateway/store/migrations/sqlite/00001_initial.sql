-- +goose Up
CREATE TABLE counter (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO counter (id, version) VALUES (1, 0);

CREATE TABLE sandboxes (
    id               TEXT PRIMARY KEY NOT NULL,
    workspace        TEXT NOT NULL,
    name             TEXT NOT NULL,
    labels           TEXT NOT NULL,
    annotations      TEXT NOT NULL,
    driver           TEXT NOT NULL,
    log_level        TEXT NOT NULL,
    image            TEXT NOT NULL,
    environment      TEXT NOT NULL,
    command          TEXT NOT NULL,
    tty              INTEGER NOT NULL,
    resource_version INTEGER NOT NULL,
    generation       INTEGER NOT NULL,
    lifecycle        TEXT NOT NULL,
    connected        INTEGER NOT NULL,
    exit_code        INTEGER,
    instance         TEXT NOT NULL,
    created          INTEGER NOT NULL,
    changed          INTEGER NOT NULL,
    UNIQUE (workspace, name)
) STRICT;

CREATE TABLE services (
    id               TEXT PRIMARY KEY NOT NULL,
    sandbox_id       TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    workspace        TEXT NOT NULL,
    sandbox          TEXT NOT NULL,
    name             TEXT NOT NULL,
    port             INTEGER NOT NULL,
    domain           INTEGER NOT NULL,
    has_check        INTEGER NOT NULL,
    path             TEXT NOT NULL,
    resource_version INTEGER NOT NULL,
    revision         INTEGER NOT NULL,
    created          INTEGER NOT NULL,
    labels           TEXT NOT NULL,
    annotations      TEXT NOT NULL,
    UNIQUE (workspace, sandbox, name),
    UNIQUE (sandbox_id, name)
) STRICT;

CREATE TABLE requests (
    id       TEXT PRIMARY KEY NOT NULL,
    method   TEXT NOT NULL,
    payload  BLOB NOT NULL,
    response BLOB NOT NULL,
    created  INTEGER NOT NULL
) STRICT;
CREATE INDEX requests_by_age ON requests (created);

-- One row that the readiness check writes.
CREATE TABLE write_check (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    checked INTEGER NOT NULL
) STRICT;
INSERT INTO write_check (id, checked) VALUES (1, 0);
