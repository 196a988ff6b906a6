-- The schema as the migrations make it, for reading: one statement a line, comments are in the
-- migrations. Made by: python3 tests/check/sql_plans.py print-schema src/journal/sqlite
CREATE TABLE event(position INTEGER PRIMARY KEY, stream INTEGER NOT NULL REFERENCES stream(id), seq INTEGER NOT NULL, prev INTEGER NOT NULL, jump INTEGER NOT NULL, type INTEGER NOT NULL REFERENCES event_type(id), schema INTEGER NOT NULL, time INTEGER NOT NULL, recorded INTEGER NOT NULL, id TEXT NOT NULL, data TEXT NOT NULL, meta TEXT NOT NULL, sum INTEGER NOT NULL, hash BLOB NOT NULL);
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event BEGIN SELECT raise(ABORT, 'events are never changed'); END;
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event BEGIN SELECT raise(ABORT, 'events are never deleted'); END;
CREATE TABLE event_type(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, intent INTEGER NOT NULL, publish INTEGER NOT NULL, alias_of INTEGER REFERENCES event_type(id));
CREATE TABLE id_chunk(run INTEGER NOT NULL, lo INTEGER NOT NULL, entries BLOB NOT NULL, PRIMARY KEY(run, lo)) WITHOUT ROWID;
CREATE TABLE id_run(run INTEGER PRIMARY KEY, level INTEGER NOT NULL, merging_into INTEGER NOT NULL);
CREATE TABLE lane(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL, enabled INTEGER NOT NULL, types TEXT NOT NULL, settings TEXT NOT NULL DEFAULT '', retain INTEGER NOT NULL DEFAULT 0, progress TEXT NOT NULL DEFAULT '');
CREATE TABLE lease(kind INTEGER NOT NULL, name TEXT NOT NULL, partition INTEGER NOT NULL, owner TEXT NOT NULL, token INTEGER NOT NULL, until INTEGER NOT NULL, updated INTEGER NOT NULL, PRIMARY KEY(kind, name, partition)) WITHOUT ROWID;
CREATE VIEW outbox(lane, position, partition) AS SELECT id >> 48, id & 0xffffffffffff, partition FROM outbox_queue;
CREATE TABLE outbox_act(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, act TEXT NOT NULL, who TEXT NOT NULL, reason TEXT NOT NULL, lane TEXT NOT NULL, tenant TEXT NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL);
CREATE TABLE outbox_exception(lane INTEGER NOT NULL REFERENCES lane(id), position INTEGER NOT NULL REFERENCES event(position), partition INTEGER NOT NULL, stream INTEGER NOT NULL, seq INTEGER NOT NULL, status INTEGER NOT NULL, skip INTEGER NOT NULL, first INTEGER NOT NULL, attempts INTEGER NOT NULL, due INTEGER NOT NULL, error TEXT NOT NULL, updated INTEGER NOT NULL, filed INTEGER NOT NULL, PRIMARY KEY(lane, position)) WITHOUT ROWID;
CREATE INDEX outbox_exception_dead ON outbox_exception(lane, stream, seq) WHERE status = 3;
CREATE INDEX outbox_exception_due ON outbox_exception(lane, due) WHERE first = 1 AND status < 3;
CREATE INDEX outbox_exception_head ON outbox_exception(lane, position) WHERE first = 1;
CREATE INDEX outbox_exception_of_status ON outbox_exception(status, lane, position);
CREATE INDEX outbox_exception_of_stream ON outbox_exception(lane, stream, seq);
CREATE TABLE outbox_mark(lane INTEGER NOT NULL REFERENCES lane(id), partition INTEGER NOT NULL, position INTEGER NOT NULL, hand INTEGER NOT NULL, hand_token INTEGER NOT NULL, suspect INTEGER NOT NULL, updated INTEGER NOT NULL, PRIMARY KEY(lane, partition)) WITHOUT ROWID;
CREATE TABLE outbox_published(id INTEGER PRIMARY KEY, published INTEGER NOT NULL);
CREATE TABLE outbox_queue(id INTEGER PRIMARY KEY, partition INTEGER NOT NULL);
CREATE TABLE run(number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, mode INTEGER NOT NULL, projection TEXT NOT NULL, tenant TEXT NOT NULL, state INTEGER NOT NULL, requested INTEGER NOT NULL, started INTEGER NOT NULL, finished INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, processed INTEGER NOT NULL, total INTEGER NOT NULL, last_position INTEGER NOT NULL, error TEXT NOT NULL, reason TEXT NOT NULL, requester TEXT NOT NULL, lease_kind INTEGER NOT NULL, lease_name TEXT NOT NULL, lease_partition INTEGER NOT NULL, detail TEXT NOT NULL, cancel INTEGER NOT NULL);
CREATE UNIQUE INDEX run_open_once ON run(tenant, projection) WHERE state < 2;
CREATE TABLE state(one INTEGER PRIMARY KEY CHECK(one = 1), journal_id TEXT NOT NULL, created INTEGER NOT NULL, partitions INTEGER NOT NULL, settled INTEGER NOT NULL, target INTEGER NOT NULL, heads_after INTEGER NOT NULL, ids_after INTEGER NOT NULL, next_run INTEGER NOT NULL, types_version INTEGER NOT NULL, lanes_version INTEGER NOT NULL, checkpoints INTEGER NOT NULL, purged INTEGER NOT NULL, token_floor INTEGER NOT NULL);
CREATE TABLE stream(id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, UNIQUE(tenant, name));
CREATE TABLE stream_head(stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL, position INTEGER NOT NULL, ladder BLOB NOT NULL);
CREATE TABLE throughput(minute INTEGER PRIMARY KEY, position INTEGER NOT NULL, appended INTEGER NOT NULL, applied INTEGER NOT NULL, published INTEGER NOT NULL, failed INTEGER NOT NULL, dead INTEGER NOT NULL);
CREATE TABLE worker(id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL, updated INTEGER NOT NULL, heartbeat_until INTEGER NOT NULL, idle INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
