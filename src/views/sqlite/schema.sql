-- The schema as the migrations make it, for reading: one statement a line, comments are in the
-- migrations. Made by: python3 tests/check/sql_plans.py print-schema src/journal/sqlite
CREATE TABLE failure(id INTEGER PRIMARY KEY AUTOINCREMENT, generation INTEGER NOT NULL, tenant TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL, position INTEGER NOT NULL, event_id TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL, attempts INTEGER NOT NULL, open INTEGER NOT NULL, recorded INTEGER NOT NULL, resolved INTEGER NOT NULL, line INTEGER NOT NULL DEFAULT 0);
CREATE INDEX failure_all ON failure(generation);
CREATE INDEX failure_open ON failure(generation) WHERE open = 1;
CREATE UNIQUE INDEX failure_open_once ON failure(generation, tenant, stream, seq) WHERE open = 1;
CREATE TABLE fence(scope TEXT PRIMARY KEY, token INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE follow(generation INTEGER NOT NULL, tenant TEXT NOT NULL, until INTEGER NOT NULL, low INTEGER NOT NULL, last INTEGER NOT NULL, kept INTEGER NOT NULL, PRIMARY KEY(generation, tenant)) WITHOUT ROWID;
CREATE INDEX follow_until ON follow(generation, until);
CREATE TABLE follow_floor(generation INTEGER PRIMARY KEY, number INTEGER NOT NULL);
CREATE TABLE generation(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, version INTEGER NOT NULL, number INTEGER NOT NULL, by_log INTEGER NOT NULL, program TEXT NOT NULL, program_hash INTEGER NOT NULL, index_paths TEXT NOT NULL, schema INTEGER NOT NULL, state INTEGER NOT NULL, routed INTEGER NOT NULL, era INTEGER NOT NULL, position INTEGER NOT NULL, seam INTEGER NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, views INTEGER NOT NULL, applied INTEGER NOT NULL, ignored INTEGER NOT NULL, skipped INTEGER NOT NULL, digest_a INTEGER NOT NULL, digest_b INTEGER NOT NULL, on_error INTEGER NOT NULL DEFAULT 0, replaced INTEGER NOT NULL DEFAULT -1, superseded INTEGER NOT NULL DEFAULT 0, UNIQUE(name, number));
CREATE UNIQUE INDEX generation_routed_once ON generation(name) WHERE routed = 1;
CREATE TABLE retired_version(name TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY(name, version)) WITHOUT ROWID;
CREATE TABLE sqlite_sequence(name, seq);
CREATE TABLE state(one INTEGER PRIMARY KEY CHECK(one = 1), created INTEGER NOT NULL, live_set INTEGER NOT NULL, checkpoints INTEGER NOT NULL);
CREATE TABLE tenant_cursor(generation INTEGER NOT NULL, tenant TEXT NOT NULL, position INTEGER NOT NULL, waiting INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL, updated INTEGER NOT NULL, PRIMARY KEY(generation, tenant)) WITHOUT ROWID;
CREATE INDEX tenant_cursor_due ON tenant_cursor(generation, due);
CREATE TABLE view(generation INTEGER NOT NULL REFERENCES generation(id), tenant TEXT NOT NULL, id TEXT NOT NULL, data TEXT NOT NULL, last_position INTEGER NOT NULL, last_seq INTEGER NOT NULL, schema INTEGER NOT NULL, digest_a INTEGER NOT NULL, digest_b INTEGER NOT NULL, keys BLOB NOT NULL, PRIMARY KEY(generation, tenant, id));
CREATE TABLE view_change(generation INTEGER NOT NULL, tenant TEXT NOT NULL, number INTEGER NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, kind INTEGER NOT NULL, PRIMARY KEY(generation, tenant, number)) WITHOUT ROWID;
CREATE TABLE view_index(generation INTEGER NOT NULL, tenant TEXT NOT NULL, idx INTEGER NOT NULL, key BLOB NOT NULL, id TEXT NOT NULL, PRIMARY KEY(generation, tenant, idx, key, id)) WITHOUT ROWID;
CREATE VIEW views AS SELECT g.name AS projection, g.version, g.number AS generation, g.routed, v.tenant, v.id, v.data, v.last_position, v.last_seq, v.schema FROM view v JOIN generation g ON g.id = v.generation;
CREATE TABLE watermark(generation INTEGER NOT NULL, tenant TEXT NOT NULL, stream TEXT NOT NULL, applied_seq INTEGER NOT NULL, expected_next_seq INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY(generation, tenant, stream)) WITHOUT ROWID;
