-- The journal as a whole.

-- name: state_get
-- rows: journal_id text, partitions int, types_max int
SELECT journal_id, partitions, types_max FROM everfold.state;

-- name: state_partitions_set
-- binds: 1 partitions int
UPDATE everfold.state SET partitions = $1::integer;

-- name: facts
-- only: postgres SQLite reports these by calls and pragmas
-- rows: journal_id text, partitions int, bytes int, streams int, version text, fsync bool,
--        full_page_writes bool, synchronous_commit text, has_standbys bool
SELECT s.journal_id, s.partitions, pg_database_size(current_database()),
       (SELECT count(*) FROM everfold.event WHERE seq = 1),
       current_setting('server_version'), current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
       current_setting('synchronous_standby_names') <> ''
  FROM everfold.state s;

-- name: state_database
-- only: postgres a SQLite journal is one file
-- rows: database text
SELECT database FROM everfold.state;

-- name: state_damage
-- only: postgres SQLite records damage in the head file
-- rows: damage text, damaged int
SELECT damage, damaged FROM everfold.state;

-- name: state_damage_set
-- only: postgres SQLite records damage in the head file
-- The first one stays.
-- binds: 1 damage text (what was found), 2 found_us int
UPDATE everfold.state SET damage = $1, damaged = $2 WHERE damaged = 0;

-- name: state_damage_clear
-- only: postgres SQLite records damage in the head file
UPDATE everfold.state SET damage = '', damaged = 0;

-- name: state_types_max
-- only: postgres everfold.append has to know the limit
-- binds: 1 types int
UPDATE everfold.state SET types_max = $1;

-- name: state_copied
-- row: copied int
SELECT copied FROM everfold.state;

-- name: state_adopt
UPDATE everfold.state SET copied = 0;

-- name: state_moved
-- only: postgres a SQLite journal is a copy only after a backup
-- Whether the journal is in another database than before. A journal without a recorded database
-- records this one.
-- binds: 1 database text, 2 now clock
-- row: is_copy bool
WITH was AS MATERIALIZED (SELECT database FROM everfold.state FOR UPDATE)
UPDATE everfold.state s
   SET database = $1,
       copied = CASE WHEN was.database = '' THEN s.copied ELSE everfold.clock_us($2) END,
       token_floor = greatest(s.token_floor, (SELECT max(token) FROM everfold.lease))
  FROM was WHERE was.database <> $1
RETURNING was.database <> '';

-- name: copy_drop_leases
DELETE FROM everfold.lease;

-- name: copy_drop_workers
DELETE FROM everfold.worker;

-- name: copy_release_batches
UPDATE everfold.lane_offset SET in_flight = 0, in_flight_token = 0 WHERE in_flight <> 0;
