-- +goose Up
CREATE TABLE counter (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO counter (id, version) VALUES (1, 0);

CREATE TABLE sandboxes (
    id               TEXT COLLATE "C" PRIMARY KEY,
    workspace        TEXT COLLATE "C" NOT NULL,
    name             TEXT COLLATE "C" NOT NULL,
    labels           TEXT NOT NULL,
    annotations      TEXT NOT NULL,
    driver           TEXT NOT NULL,
    log_level        TEXT NOT NULL,
    image            TEXT NOT NULL,
    environment      TEXT NOT NULL,
    command          TEXT NOT NULL,
    tty              BOOLEAN NOT NULL,
    resource_version BIGINT NOT NULL,
    generation       BIGINT NOT NULL,
    lifecycle        TEXT NOT NULL,
    connected        BOOLEAN NOT NULL,
    exit_code        INTEGER,
    instance         TEXT NOT NULL,
    created          BIGINT NOT NULL,
    changed          BIGINT NOT NULL,
    UNIQUE (workspace, name)
);

CREATE TABLE services (
    id               TEXT COLLATE "C" PRIMARY KEY,
    sandbox_id       TEXT COLLATE "C" NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    workspace        TEXT COLLATE "C" NOT NULL,
    sandbox          TEXT COLLATE "C" NOT NULL,
    name             TEXT COLLATE "C" NOT NULL,
    port             INTEGER NOT NULL,
    domain           BOOLEAN NOT NULL,
    has_check        BOOLEAN NOT NULL,
    path             TEXT NOT NULL,
    resource_version BIGINT NOT NULL,
    revision         BIGINT NOT NULL,
    created          BIGINT NOT NULL,
    labels           TEXT NOT NULL,
    annotations      TEXT NOT NULL,
    UNIQUE (workspace, sandbox, name),
    UNIQUE (sandbox_id, name)
);

CREATE TABLE requests (
    id       TEXT COLLATE "C" PRIMARY KEY,
    method   TEXT NOT NULL,
    payload  BYTEA NOT NULL,
    response BYTEA NOT NULL,
    created  BIGINT NOT NULL
);
CREATE INDEX requests_by_age ON requests (created);

-- One row that the readiness check writes.
CREATE TABLE write_check (
    id      BIGINT PRIMARY KEY CHECK (id = 1),
    checked BIGINT NOT NULL
);
INSERT INTO write_check (id, checked) VALUES (1, 0);
