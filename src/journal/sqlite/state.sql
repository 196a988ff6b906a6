-- The state row, and the index of event ids.

-- name: state_get
-- row sq_progress: settled int, target int, heads_after int, ids_after int, next_run int,
--        types_version int, lanes_version int, partitions int
SELECT settled, target, heads_after, ids_after, next_run, types_version, lanes_version, partitions
  FROM state;

-- name: state_identity
-- only: sqlite PostgreSQL reads it in state_get
-- rows: journal_id text
SELECT journal_id FROM state;

-- name: state_init
-- only: sqlite a PostgreSQL migration inserts the row
-- binds: 1 journal_id text, 2 created int, 3 partitions int
INSERT INTO state(one, journal_id, created, partitions, settled, target, heads_after, ids_after,
                  next_run, types_version, lanes_version, checkpoints, purged, token_floor)
VALUES (1, ?1, ?2, ?3, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0);

-- name: state_put
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 p.settled int, 2 p.target int, 3 p.heads_after int, 4 p.ids_after int, 5 p.next_run int
-- from: p sq_progress
UPDATE state SET settled = ?1, target = ?2, heads_after = ?3, ids_after = ?4, next_run = ?5;

-- name: state_types_changed
-- only: sqlite SQLite keeps this in memory for the process that writes
UPDATE state SET types_version = types_version + 1;

-- name: state_lanes_changed
-- only: sqlite SQLite keeps this in memory for the process that writes
UPDATE state SET lanes_version = lanes_version + 1;

-- name: state_partitions
-- only: sqlite PostgreSQL reads it in state_get
-- row: partitions int
SELECT partitions FROM state;

-- name: state_partitions_set
-- binds: 1 partitions int
UPDATE state SET partitions = ?1;

-- name: state_checkpoint
-- only: sqlite PostgreSQL checkpoints by itself
-- A commit of one page: after it the log has frames that no checkpoint has copied (checkpoint.c).
UPDATE state SET checkpoints = checkpoints + 1;

-- name: id_run_all
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- rows sq_run: run int, level int, into int
SELECT run, level, merging_into FROM id_run ORDER BY run;

-- name: id_run_insert
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 level int
INSERT INTO id_run(run, level, merging_into) VALUES (?1, ?2, 0);

-- name: id_run_merge_into
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 into int
UPDATE id_run SET merging_into = ?2 WHERE run = ?1;

-- name: id_run_merged
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- The run has all entries of the runs that were merged into it: from now on it is searched, and they
-- are not.
-- binds: 1 into int (the run that they were merged into)
UPDATE id_run SET level = -1, merging_into = 0 WHERE merging_into = ?1;

-- name: id_run_delete
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int
DELETE FROM id_run WHERE run = ?1;

-- name: id_chunk_insert
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 lo int, 3 entries blob
INSERT INTO id_chunk(run, lo, entries) VALUES (?1, ?2, ?3);

-- name: id_chunk_delete
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 lo int (of the last one to delete)
DELETE FROM id_chunk WHERE run = ?1 AND lo <= ?2;

-- name: id_chunk_find
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- The chunk that contains a hash, if the run contains it.
-- binds: 1 run int, 2 hash int
-- rows: lo int, entries blob
SELECT lo, entries FROM id_chunk WHERE run = ?1 AND lo <= ?2 ORDER BY lo DESC LIMIT 1;

-- name: id_chunk_first
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int
-- rows: as id_chunk_find
SELECT lo, entries FROM id_chunk WHERE run = ?1 ORDER BY lo LIMIT 1;

-- name: id_chunk_next
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 lo int (of the one before)
-- rows: as id_chunk_find
SELECT lo, entries FROM id_chunk WHERE run = ?1 AND lo > ?2 ORDER BY lo LIMIT 1;

-- name: id_chunk_nth
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- binds: 1 run int, 2 before int (chunks that precede it)
-- row: lo int
SELECT lo FROM id_chunk WHERE run = ?1 ORDER BY lo LIMIT 1 OFFSET ?2;

-- name: id_chunk_all
-- only: sqlite PostgreSQL finds ids by an index, SQLite in sorted runs
-- Every chunk that is searched: neither chunks of runs that were merged nor those of a run that is
-- still being written.
-- rows: entries blob
SELECT c.entries FROM id_run r JOIN id_chunk c ON c.run = r.run
 WHERE r.level >= 0 AND r.run NOT IN (SELECT merging_into FROM id_run);

-- name: lane_init
-- only: sqlite a PostgreSQL migration inserts the row
-- The lane "*" exists from the start.
INSERT INTO lane(id, name, kind, enabled, types) VALUES (1, '*', 0, 1, '');

-- name: state_copied
-- row: copied int
SELECT copied FROM state;

-- name: state_adopt
UPDATE state SET copied = 0;

-- The next four run in the copy that a backup makes. No process uses it yet: it has no leases, no
-- workers and nothing in flight, and its lease tokens start above those of the original.

-- name: copy_state
-- only: sqlite PostgreSQL detects a copy in state_moved
UPDATE state SET copied = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER),
                 token_floor = max(token_floor, (SELECT coalesce(max(token), 0) FROM lease));

-- name: copy_drop_leases
DELETE FROM lease;

-- name: copy_drop_workers
DELETE FROM worker;

-- name: copy_release_batches
UPDATE lane_offset SET in_flight = 0, in_flight_token = 0 WHERE in_flight <> 0;
