UPDATE counter SET version = 41;
INSERT INTO sandboxes (id, workspace, name, labels, annotations, driver, log_level, image, environment, command, tty,
    resource_version, generation, lifecycle, connected, exit_code, instance, created, changed)
VALUES ('sb-1', 'default', 'old', '{"team":"x"}', '{}', 'local', 'info', 'base:1', '{"A":"b"}', '["sleep","9"]', TRUE,
    40, 2, 'stopped', FALSE, 3, 'i-1', 1767323045000001, 1767323046000002);
INSERT INTO services (id, sandbox_id, workspace, sandbox, name, port, domain, has_check, path,
    resource_version, revision, created, labels, annotations)
VALUES ('svc-1', 'sb-1', 'default', 'old', 'web', 8080, TRUE, TRUE, '/readyz', 41, 39, 1767323047000003, '{}', '{"a":"b"}');
